"""The stages of the pipeline, one thin script each: ``python -m stages.score words``, or ``dvc repro score@words``."""

import gc
import sys

from wsoup.runtime.ending import leave_at_once
from wsoup.runtime.memory import keep_memory

# Python says "-m" here while it looks for the module to run: a stage is being started, not imported.
if sys.argv[0] == "-m":
    leave_at_once()
    # Imports make no garbage, and collecting takes a sixth of their time. Collection begins again with the work.
    gc.disable()
keep_memory()
