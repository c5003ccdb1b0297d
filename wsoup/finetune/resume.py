"""The state of a training on disk, from which a killed one resumes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from wsoup.disk.checked import read_checked, write_checked
from wsoup.disk.store import text_as_array, text_of_array

VALUES = "state"
"""Name of the tensor that holds what is no tensor, as the bytes of a JSON text."""


def write_state(path: Path, *, tensors: Mapping[str, Tensor], values: Mapping[str, object]) -> None:
    """Write tensors by name, and JSON values, with a checksum."""
    on_cpu = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    # A copy: torch warns of the array of a text, which cannot be written to.
    text = text_as_array(json.dumps(values)).copy()
    on_cpu[VALUES] = torch.from_numpy(text)
    write_checked(path, safetensors.torch.save(on_cpu))


def read_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_state` wrote: tensors on the CPU, and values; MismatchError if it is damaged."""
    tensors = safetensors.torch.load(read_checked(path))
    values = json.loads(text_of_array(tensors.pop(VALUES).numpy()))
    return tensors, values
