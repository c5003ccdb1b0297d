"""`wsoup` and `python -m wsoup`: an interrupt is one line from the first import on."""

from __future__ import annotations

from wsoup.runtime.process import leave_at_once


def main() -> None:
    """Run the command line."""
    leave_at_once()
    from wsoup.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
