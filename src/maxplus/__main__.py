"""``python -m maxplus`` is the command ``maxplus``."""

from maxplus.cli import main

if __name__ == "__main__":
    main()
