"""Pedigrees as linkage analysis writes them: who inherits which allele from whom, at loci next to each other.

Alleles of founders have frequencies. A child gets, at each locus, one of the two alleles of each parent; a selector
says which, and keeps its state at the next locus unless there is a recombination. Genotypes and a trait are observed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ibia.errors import InputError
from ibia.model import Factor, Model, Variable

__all__ = ["pedigree"]

# Whether somebody is affected by the trait, by the number of copies of its allele.
_PENETRANCE = np.array([0.03, 0.3, 0.95])
# A child is as often one more of a couple that has children as the first of a new couple.
_SIBLING = 0.5


@dataclass
class _Network:
    """A Bayesian network while it grows."""

    variables: list[Variable] = field(default_factory=list)
    factors: list[Factor] = field(default_factory=list)
    observed: list[int] = field(default_factory=list)

    def add(self, name: str, parents: tuple[int, ...], table: NDArray[np.float64]) -> int:
        """Add a variable with its table and return its number."""
        number = len(self.variables)
        self.variables.append(Variable(name, table.shape[-1]))
        self.factors.append(Factor((*parents, number), table.reshape(-1)))
        return number


def pedigree(
    people: int, founders: int, loci: int, alleles: int, typed: float, recombination: float, seed: int
) -> tuple[Model, list[int]]:
    """Return the Bayesian network of a pedigree, and the variables to observe: genotypes and the trait of the typed.

    Parameters
    ----------
    people, founders
        Number of people, and how many of them, the first, have no parents in the pedigree.
    loci
        Number of loci: the first is that of the trait, with two alleles, the others are markers.
    alleles
        Number of alleles of a marker.
    typed
        Share of the people who are observed.
    recombination
        Probability that a selector changes from one locus to the next.
    seed
        Of the random parents, frequencies and choice of typed people.
    """
    if not 2 <= founders <= people or loci < 1 or alleles < 1 or not 0.0 <= typed <= 1.0:
        raise InputError(
            f"There is no pedigree of {people} people, {founders} of them founders, with {loci} loci, {alleles} "
            f"alleles and a share of {typed} typed: expected 2 ≤ founders ≤ people, at least 1 locus and allele, and "
            f"0 ≤ typed ≤ 1."
        )
    random = np.random.default_rng(seed)
    parents = _parents(people, founders, random)
    frequencies = [random.dirichlet(np.full(2 if locus == 0 else alleles, 3.0)) for locus in range(loci)]
    observed = set(random.choice(people, size=round(typed * people), replace=False).tolist())
    network = _Network()
    # The alleles of each person at each locus: from the father, from the mother.
    owned: list[list[tuple[int, int]]] = []
    for person in range(people):
        couple = parents[person]
        if couple is None:
            owned.append([_founder(network, person, locus, frequencies[locus]) for locus in range(loci)])
        else:
            father, mother = couple
            owned.append(_child(network, person, owned[father], owned[mother], frequencies, recombination))
        if person in observed:
            for locus, pair in enumerate(owned[person]):
                _observe(network, person, locus, pair, frequencies[locus].size)
    name = f"pedigree of {people} with {loci} loci"
    return Model(tuple(network.variables), tuple(network.factors), kind="bayes", name=name), network.observed


def _parents(people: int, founders: int, random: np.random.Generator) -> list[tuple[int, int] | None]:
    """Return the father (of even number) and the mother (odd) of each person, both born before; None for founders."""
    parents: list[tuple[int, int] | None] = [None] * founders
    couples: list[tuple[int, int]] = []
    for person in range(founders, people):
        if couples and random.random() < _SIBLING:
            couple = couples[int(random.integers(len(couples)))]
        else:
            couple = 2 * int(random.integers((person + 1) // 2)), 2 * int(random.integers(person // 2)) + 1
            couples.append(couple)
        parents.append(couple)
    return parents


def _founder(network: _Network, person: int, locus: int, frequencies: NDArray[np.float64]) -> tuple[int, int]:
    father = network.add(f"paternal_{person}_{locus}", (), frequencies)
    mother = network.add(f"maternal_{person}_{locus}", (), frequencies)
    return father, mother


def _child(
    network: _Network,
    person: int,
    father: list[tuple[int, int]],
    mother: list[tuple[int, int]],
    frequencies: list[NDArray[np.float64]],
    recombination: float,
) -> list[tuple[int, int]]:
    """Add selectors and alleles of a child and return the alleles at each locus."""
    kept = np.array([[1.0 - recombination, recombination], [recombination, 1.0 - recombination]])
    sides: list[list[int]] = []
    for side, parent in (("paternal", father), ("maternal", mother)):
        alleles: list[int] = []
        selectors: list[int] = []
        for locus, pair in enumerate(parent):
            before = (selectors[-1],) if selectors else ()
            table = kept if selectors else np.array([0.5, 0.5])
            selectors.append(network.add(f"{side}_selector_{person}_{locus}", before, table))
            inherited = _inherited(frequencies[locus].size)
            alleles.append(network.add(f"{side}_{person}_{locus}", (selectors[-1], *pair), inherited))
        sides.append(alleles)
    return list(zip(*sides, strict=True))


def _inherited(alleles: int) -> NDArray[np.float64]:
    """Return the table of a child's allele given the selector and the two alleles of a parent."""
    table = np.zeros((2, alleles, alleles, alleles))
    for own in range(alleles):
        table[0, own, :, own] = 1.0
        table[1, :, own, own] = 1.0
    return table


def _observe(network: _Network, person: int, locus: int, pair: tuple[int, int], alleles: int) -> None:
    """Add what is seen of a person at a locus: the trait at the first, at others the genotype, which has no order."""
    if locus == 0:
        copies = np.add.outer(np.arange(2), np.arange(2))
        affected = _PENETRANCE[copies]
        network.observed.append(network.add(f"trait_{person}", pair, np.stack([1.0 - affected, affected], axis=-1)))
        return
    first, second = np.triu_indices(alleles)
    table = np.zeros((alleles, alleles, first.size))
    table[first, second, np.arange(first.size)] = 1.0
    table[second, first, np.arange(first.size)] = 1.0
    network.observed.append(network.add(f"genotype_{person}_{locus}", pair, table))
