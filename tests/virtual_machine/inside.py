"""One trial, by its name, inside the machine: python -m tests.virtual_machine.inside NAME."""

import sys

from . import kills, sweeps  # noqa: F401, which enter their trials
from .trial import TRIALS, NotThere

NOT_THERE = 77  # exit status


def main() -> int:
    """Run the trial that the command line names; return 0, 1 or NOT_THERE."""
    try:
        TRIALS[sys.argv[1]].act()
    except NotThere as error:
        print(f"not there: {error}")
        return NOT_THERE
    except AssertionError as error:
        print(f"failed: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
