"""Stages of pipeline folders that wsoup 0.2 made import this, and nothing else does: what to do with such a folder."""

import sys

if sys.argv[0] == "-m":  # a stage is being started
    raise SystemExit(
        "error: this folder was made by an earlier wsoup than the one installed; run `wsoup init .` to bring its "
        "stages up to date, then `dvc repro` (CHANGELOG.md says how to keep results)"
    )
