"""Entry point of ``python -m maxplus``."""

from maxplus.cli import main

if __name__ == "__main__":
    main()
