"""Loopy belief propagation."""

from ibia.loopy.propagation import SCHEDULES, LoopyResult, loopy_marginals

__all__ = ["SCHEDULES", "LoopyResult", "loopy_marginals"]
