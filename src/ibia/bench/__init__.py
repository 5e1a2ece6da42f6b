"""Measurements: how fast the table operations are, how accurate and fast inference is on models with known answers.

Run as ``python -m ibia.bench``. Inference is used through the public call only; nothing in the package needs this part.
"""

from ibia.bench.metrics import Score, hellinger, score

__all__ = ["Score", "hellinger", "score"]
