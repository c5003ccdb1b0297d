"""Imported only by the stages of pipeline folders made by wsoup 0.2: tells their owners what to do."""

import sys

if sys.argv[0] == "-m":  # a stage is being started
    raise SystemExit(
        "error: this folder was made by an earlier wsoup than the one installed; run `wsoup init .` to bring its "
        "stages up to date, then `dvc repro` (CHANGELOG.md says how to keep results)"
    )
