"""Texts of others as they may be shown: names in model files may hold anything, also what terminals obey."""

from __future__ import annotations

__all__ = ["plain"]


def plain(text: str) -> str:
    r"""Return a text with everything written out that is no printable character, as in \x1b."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
