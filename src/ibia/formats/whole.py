"""Files that are written whole or not at all: under another name first, which then takes the place of the old one.

What is interrupted in here would leave remains, so the commands do not let a signal do that (``process.py``).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["replace_file"]


def replace_file(target: Path, data: bytes) -> None:
    """Put a file in place of the one of that name, if there is one; whatever goes wrong, that one stays as it was."""
    # The usual helpers for temporary files make them private; this one honours the user's mask.
    temporary = target.with_name(f".{target.name[:100]}.{os.urandom(6).hex()}.part")
    try:
        with open(temporary, "xb") as stream:
            stream.write(data)
        if target.exists():
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
