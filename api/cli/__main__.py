"""`python -m api.cli`: the `roost` command, also where it is not installed."""

from api.cli import main

if __name__ == "__main__":
    main()
