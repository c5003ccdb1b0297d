"""The folder of the authors' pools and logs, for tests that compare with them; most machines have none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PLACES = (os.environ.get("WSOUP_REFERENCE", ""), _ROOT / "shared/reference", _ROOT.parent / "shared/reference")
REFERENCE = next((Path(place) for place in _PLACES if place and Path(place).is_dir()), Path("no/reference"))
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the authors' pools are not here")
