"""`wsoup` and `python -m wsoup`, where an interrupt is one line even during imports."""

import gc
import sys

from wsoup.runtime.ending import finished, leave_at_once

OBJECTS = 100_000
"""New objects after which Python collects garbage. Imports make many and no garbage, and a command is mostly that."""


def main() -> None:
    """Run the command line."""
    gc.set_threshold(OBJECTS)
    closed = sys.stdout is None
    leave_at_once()
    if closed:
        raise SystemExit("error: stdout is closed, and results go there; direct it to a file, or to /dev/null")
    from wsoup.cli.app import main as run

    try:
        run()
    except SystemExit as stop:
        if isinstance(stop.code, int):
            finished(stop.code)
        raise


if __name__ == "__main__":
    main()
