"""The ladder: the ways to approximate a model that are worth trying, from the quickest to the best.

A way is a bound, and by how many bits cliques are reduced after each step. A bit more of the bound makes an answer
better; a bit more of reduction makes it quicker, since there are fewer steps, and worse, but by less. So where small
tables cost little, a high bound with much reduction is better than a low one with little that takes as long. Knows what
ways will cost (``predict.py``), nothing of the time there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ibia.predict import Prediction, Predictor

__all__ = ["REDUCTIONS", "Ladder", "worth"]

# Bits by which cliques may be reduced after each step, where that is to be chosen: at most this part of the bound.
REDUCTIONS = (1.0, 2.0, 3.0, 4.0, 6.0)
_MOST_REDUCED = 0.5
# A bit more of reduction makes an answer worse by as much as so many bits less of the bound (docs/decisions.md).
_PRICE = 0.7
# Tables of more bits than this fit no machine.
_HIGHEST_BOUND = 40.0


def worth(bound: float, reduce: float) -> float:
    """Return the bound that is as good where cliques are reduced by one bit only."""
    return bound - _PRICE * (reduce - 1.0)


class Ladder:
    """The bounds and reductions of one model.

    Parameters
    ----------
    highest
        The highest bound to try, if there is one.
    reductions
        Which there are to choose from; the first is the usual one.
    """

    def __init__(self, predictor: Predictor, highest: float | None, reductions: Sequence[float]) -> None:
        self._predictor = predictor
        self._highest = highest
        self._reductions = reductions

    @property
    def usual(self) -> float:
        """The reduction to use where nothing has to be saved."""
        return self._reductions[0]

    def bounds(self) -> list[float]:
        """Return the bounds that may be tried: whole ones, and last the one that is exact or the highest allowed."""
        top = min(self._predictor.exact_bound, _HIGHEST_BOUND)
        if self._highest is not None and self._highest < top:
            top = self._highest
        lowest = min(self._predictor.lowest_bound, top)
        return [float(bound) for bound in range(math.ceil(lowest), math.ceil(top))] + [top]

    def predictions(
        self,
        fits: Callable[[Prediction], bool],
        seconds: float,
        above: float = -math.inf,
        quick: bool = False,
        slices: str = "",
    ) -> list[Prediction]:
        """Return what the ways cost that nothing beats at both time and worth, the quickest first.

        Parameters
        ----------
        fits
            Tells whether there is the memory for a way. The last one returned may be the best of those without.
        seconds
            Of those that take longer, one is enough. An exact one that takes less than they do is not looked for.
        above
            Leave out what is worth no more than this.
        quick, slices
            As for `Predictor.predict`.
        """
        fitting: list[Prediction] = []
        too_large: list[Prediction] = []
        for reduce in self._reductions:
            for bound in self.bounds():
                if reduce > max(_MOST_REDUCED * bound, self.usual):
                    continue
                predicted = self._predictor.predict(bound, quick, slices, reduce)
                if predicted.exact and reduce != self.usual:
                    # Nothing is reduced.
                    break
                if predicted.worth <= above:
                    continue
                enough = fits(predicted)
                (fitting if enough else too_large).append(predicted)
                # Higher bounds take longer, and more memory, until one is exact: who wants that one asks for it.
                if not enough or predicted.seconds > seconds:
                    break
        ways: list[Prediction] = []
        for predicted in sorted(fitting, key=lambda way: (way.seconds, -way.worth)):
            if not ways or predicted.worth > ways[-1].worth:
                ways.append(predicted)
        if not ways:
            return sorted(too_large, key=lambda way: way.bytes)[:1]
        beyond = sorted((way for way in too_large if way.worth > ways[-1].worth), key=lambda way: way.worth)
        return ways + beyond[:1]
