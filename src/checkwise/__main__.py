"""``python -m checkwise``: the command line where its script is not on the path."""

from checkwise.cli import main

if __name__ == "__main__":
    main()
