"""The state of a training on disk, from which a killed one resumes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from wsoup.disk.store import read_checked, write_checked

VALUES = "state"
"""Name of the tensor that holds what is no tensor, as the bytes of a JSON text."""


def write_state(path: Path, *, tensors: Mapping[str, Tensor], values: Mapping[str, object]) -> None:
    """Write tensors by name, and JSON values, with a checksum."""
    text = bytearray(json.dumps(values).encode())
    everything = {**tensors, VALUES: torch.frombuffer(text, dtype=torch.uint8)}
    on_cpu = {name: tensor.cpu().contiguous() for name, tensor in everything.items()}
    write_checked(path, safetensors.torch.save(on_cpu))


def read_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_state` wrote: tensors on the CPU, and values; MismatchError if it is damaged."""
    tensors = safetensors.torch.load(read_checked(path))
    values = json.loads(tensors.pop(VALUES).numpy().tobytes())
    return tensors, values
