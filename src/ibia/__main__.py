"""``python -m ibia``: the same as the command ``ibia``."""

from ibia.start import ibia

if __name__ == "__main__":
    ibia()
