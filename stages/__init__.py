"""The pipeline's stages, one thin script each: ``python -m stages.score words``, or ``dvc repro score@words``."""

from wsoup.runtime.interrupts import leave_at_once
from wsoup.runtime.memory import keep_memory

leave_at_once()
keep_memory()
