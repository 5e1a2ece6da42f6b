"""Messages: what a step tells the next one, and what it hears from it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ibia.flat import Remembered
from ibia.tables import Scope, Space, Table, memory
from ibia.tables.conditional import Conditionals, conditionals, distances
from ibia.tables.kernels import address_of
from ibia.tables.threads import run_batches

__all__ = ["Messages"]

Integers = NDArray[np.int64]
Tables = dict[int, Table]


class Messages:
    """What a step hands to the next: CTF_k,a as one conditional table per clique of the reduced trees.

    Attributes
    ----------
    scopes
        Clique of the core → its reduced scope. Cliques that ended up inside a neighbour are left out.
    parents
        Clique → its parent in the reduced tree and the variables they share (−1 and none for roots).
    tables
        Clique → f(scope | shared with parent); the product over cliques is the distribution of CTF_k,a.
    """

    def __init__(self, scopes: dict[int, Scope], parents: dict[int, tuple[int, Scope]], space: Space) -> None:
        self.scopes = scopes
        self.parents = parents
        self.tables: Tables = {}
        self._space = space
        self._shared = [parents[clique][1] for clique in scopes]
        self._sizes = np.array([space.size(scope) for scope in scopes.values()], np.int64)
        self._shared_sizes = np.array([space.size(scope) for scope in self._shared], np.int64)
        # How scopes lie: those of the messages, what they share with their parents, and those of the beliefs that
        # messages are made of, here and in the following step.
        self._own, self._common, self._told, self._heard = (Remembered() for _ in range(4))

    def tell(self, beliefs: Mapping[int, Table], from_behind: Tables | None = None) -> None:
        """Set the tables so that they tell beliefs.

        Parameters
        ----------
        beliefs
            Clique → a table over its reduced scope or more.
        from_behind
            The part of the beliefs that came from the following step, and is not told to it again. Where nothing did,
            what was told before stands.
        """
        before = self.tables if from_behind is not None else None
        self.tables = self._conditionals(beliefs, self._told, None, from_behind, before)

    def hear(self, beliefs: Mapping[int, Table]) -> tuple[Tables, Tables]:
        """Return the posterior of each reduced clique, and what it says beyond what was told.

        Parameters
        ----------
        beliefs
            Clique → a table over its reduced scope or more.
        """
        posteriors = self._unset()
        return posteriors, self._conditionals(beliefs, self._heard, posteriors, self.tables, None)

    def compare(self, beliefs: Mapping[int, Table], posteriors: Tables) -> dict[int, float]:
        """Return for each reduced clique how far a belief is from its posterior, at most."""
        result = np.empty(len(self.scopes))
        plan, entries = self._plan(beliefs, self._told, marginals=posteriors)

        def work(cliques: Integers) -> None:
            distances(plan, cliques, memory.allocate_unset(int(self._sizes[cliques].max())), result)

        run_batches(work, entries, self._space.control)
        return dict(zip(self.scopes, result.tolist(), strict=True))

    def _conditionals(
        self,
        beliefs: Mapping[int, Table],
        scopes: Remembered,
        marginals: Tables | None,
        divisors: Tables | None,
        kept: Tables | None,
    ) -> Tables:
        """Return the conditional distributions of the reduced cliques (see `Conditionals`)."""
        results = self._unset()
        plan, entries = self._plan(beliefs, scopes, marginals, results, divisors, kept)

        def work(cliques: Integers) -> None:
            conditionals(plan, cliques, memory.allocate_unset(int(self._shared_sizes[cliques].max())))

        run_batches(work, entries, self._space.control)
        return results

    def _plan(
        self,
        beliefs: Mapping[int, Table],
        scopes: Remembered,
        marginals: Tables | None = None,
        results: Tables | None = None,
        divisors: Tables | None = None,
        kept: Tables | None = None,
    ) -> tuple[Conditionals, Integers]:
        """Return the cliques in flat arrays, and how many entries each of them takes."""
        sources = [beliefs[clique] for clique in self.scopes]
        entries = np.array([table.values.size for table in sources], np.int64)
        addresses = partial(_addresses, self.scopes)
        plan = Conditionals(
            self._space.states,
            *scopes.flat([table.scope for table in sources]),
            addresses(beliefs),
            *self._own.flat(list(self.scopes.values())),
            *self._common.flat(self._shared),
            *map(addresses, (marginals, results, divisors, kept)),
        )
        return plan, entries + 2 * self._sizes

    def _unset(self) -> Tables:
        """Return a table for each reduced clique that is about to be written."""
        return dict(zip(self.scopes, self._space.unset_each(self.scopes.values(), self._sizes), strict=True))


def _addresses(cliques: dict[int, Scope], tables: Mapping[int, Table] | None) -> Integers:
    if tables is None:
        return np.zeros(len(cliques), np.int64)
    return np.array([address_of(tables[clique].values) for clique in cliques], np.int64)
