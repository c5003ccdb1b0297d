"""What `run_theirs.py` and `run_rivals.py` share: the world of a test, and modules that stand in for packages."""

from __future__ import annotations

import json
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

WORLD: dict[str, Any] = {}
"""Names and settings."""
TENSORS: dict[str, torch.Tensor] = {}
"""Pixels, features, batches."""


def read_world() -> None:
    """Fill `WORLD` and `TENSORS` from the working folder; torch works in one thread and warns of nothing."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    WORLD.update(json.loads(Path("world.json").read_text()))
    TENSORS.update(load_file("world.safetensors"))


def stand_in(name: str, **attributes: Any) -> types.ModuleType:
    """An empty module in place of one that a script imports and does not need here."""
    module = types.ModuleType(name)
    module.__dict__.update(attributes)
    sys.modules[name] = module
    return module
