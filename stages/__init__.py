"""The stages of the pipeline, one thin script each: ``python -m stages.score words``, or ``dvc repro score@words``."""

import gc
import sys

from wsoup.runtime.ending import leave_at_once
from wsoup.runtime.memory import keep_memory

if sys.argv[0] == "-m":  # a stage is being started, not imported (see `sys.argv`)
    leave_at_once()
    gc.disable()  # imports make no garbage, and collecting takes a sixth of their time; until work begins
keep_memory()
