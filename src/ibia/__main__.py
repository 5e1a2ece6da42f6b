"""``python -m ibia``: the same as the command ``ibia``."""

from ibia.cli import main

if __name__ == "__main__":
    main()
