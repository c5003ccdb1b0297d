"""`wsoup` and `python -m wsoup`: an interrupt is one line from the first import on."""

from wsoup.runtime.interrupts import leave_at_once

leave_at_once()

from wsoup.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
