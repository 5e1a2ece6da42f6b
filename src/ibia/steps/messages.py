"""Messages: what a step tells the next one, and what it hears from it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ibia.flat import Remembered
from ibia.tables import Scope, Space, Table, memory
from ibia.tables.conditional import Conditionals, conditionals, distances
from ibia.tables.kernels import TINY, address_of
from ibia.tables.threads import run_batches, run_each

__all__ = ["Messages"]

Array = NDArray[np.float64]
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
    behind
        Clique → what the following step says beyond that, once it was heard. Then there are no tables until something
        is told again: the two take as much memory as all else of a long sequence.
    """

    def __init__(self, scopes: dict[int, Scope], parents: dict[int, tuple[int, Scope]], space: Space) -> None:
        self.scopes = scopes
        self.parents = parents
        self.tables: Tables = {}
        self.behind: Tables = {}
        # Clique → of what was told before, in its order, what stands where `behind` rules out what is possible here.
        self._standing: dict[int, Array] = {}
        self._space = space
        self._shared = [parents[clique][1] for clique in scopes]
        self._sizes = np.array([space.size(scope) for scope in scopes.values()], np.int64)
        self._shared_sizes = np.array([space.size(scope) for scope in self._shared], np.int64)
        # How scopes lie: those of the messages, what they share with their parents, and those of the beliefs that
        # messages are made of, here and in the following step.
        self._own, self._common, self._told, self._heard = (Remembered() for _ in range(4))

    def tell(self, beliefs: Mapping[int, Table], beyond: bool = False) -> None:
        """Set the tables so that they tell beliefs.

        Parameters
        ----------
        beliefs
            Clique → a table over its reduced scope or more.
        beyond
            Whether they hold what came from behind, which is not told to where it came from: only what is beyond it.
            Where it ruled out everything, what was told before stands.
        """
        divisors, kept = (self.behind, self._standing) if beyond else ({}, {})
        self.tables = self._conditionals(beliefs, self._told, {}, divisors, kept)
        self._standing = {}

    def hear(self, beliefs: Mapping[int, Table]) -> tuple[Tables, Tables]:
        """Return the posterior of each reduced clique, and what it says beyond what was told.

        Parameters
        ----------
        beliefs
            Clique → a table over its reduced scope or more.
        """
        posteriors = self._unset()
        return posteriors, self._conditionals(beliefs, self._heard, posteriors, self.tables, {})

    def forget_told(self, heard: Tables) -> None:
        """Keep what was heard instead of what was told, for which the following step has no more use.

        It will be told anew; where what was heard rules out something, what was told before stands then.
        """
        told, self.tables, self.behind = self.tables, {}, heard

        def standing(clique: int) -> Array | None:
            values = heard[clique].values
            # What is no number counts as ruled out, as where it is read.
            return None if values.min() > TINY else told[clique].values[~(values > TINY)]

        found = run_each(standing, list(heard), [table.values.size for table in heard.values()], self._space.control)
        self._standing = {clique: kept for clique, kept in zip(heard, found, strict=True) if kept is not None}

    def compare(self, beliefs: Mapping[int, Table], posteriors: Tables) -> dict[int, float]:
        """Return for each reduced clique how far a belief is from its posterior, at most."""
        result = np.empty(len(self.scopes))
        plan, entries = self._plan(beliefs, self._told, _values(posteriors), {}, {}, {})

        def work(cliques: Integers) -> None:
            distances(plan, cliques, memory.allocate_unset(int(self._sizes[cliques].max())), result)

        run_batches(work, entries, self._space.control)
        return dict(zip(self.scopes, result.tolist(), strict=True))

    def _conditionals(
        self,
        beliefs: Mapping[int, Table],
        scopes: Remembered,
        marginals: Tables,
        divisors: Tables,
        kept: dict[int, Array],
    ) -> Tables:
        """Return the conditional distributions of the reduced cliques (see `Conditionals`)."""
        results = self._unset()
        plan, entries = self._plan(beliefs, scopes, *map(_values, (marginals, results, divisors)), kept)

        def work(cliques: Integers) -> None:
            conditionals(plan, cliques, memory.allocate_unset(int(self._shared_sizes[cliques].max())))

        run_batches(work, entries, self._space.control)
        return results

    def _plan(
        self, beliefs: Mapping[int, Table], scopes: Remembered, *arrays: Mapping[int, Array]
    ) -> tuple[Conditionals, Integers]:
        """Return the cliques in flat arrays, and how many entries each of them takes.

        Parameters
        ----------
        arrays
            Clique → marginals, results, divisors and what is kept, as far as there are such.
        """
        sources = [beliefs[clique] for clique in self.scopes]
        entries = np.array([table.values.size for table in sources], np.int64)
        plan = Conditionals(
            self._space.states,
            *scopes.flat([table.scope for table in sources]),
            self._addresses(_values(beliefs)),
            *self._own.flat(list(self.scopes.values())),
            *self._common.flat(self._shared),
            *map(self._addresses, arrays),
        )
        return plan, entries + 2 * self._sizes

    def _addresses(self, arrays: Mapping[int, Array]) -> Integers:
        """Return where the array of each clique is (0: there is none)."""
        if not arrays:
            return np.zeros(len(self.scopes), np.int64)
        found = map(arrays.get, self.scopes)
        return np.array([0 if values is None else address_of(values) for values in found], np.int64)

    def _unset(self) -> Tables:
        """Return a table for each reduced clique that is about to be written."""
        return dict(zip(self.scopes, self._space.unset_each(self.scopes.values(), self._sizes), strict=True))


def _values(tables: Mapping[int, Table]) -> dict[int, Array]:
    return {clique: table.values for clique, table in tables.items()}
