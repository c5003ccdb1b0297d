"""Preprocessing that nobody stated for local weights: open_clip then takes that of OpenAI's CLIP, right or wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wsoup.params.inputs import EncoderParams

SETTINGS = {"image_mean": "mean", "image_std": "std", "interpolation": "interpolation"}
"""Keys of section `encoder` -> keys of an encoder's preprocessing."""
TOY = Path("data/toy/encoder/toy-clip.safetensors")
"""Weights of the toy world, wherever its folder lies."""


def unstated(params: EncoderParams, preprocessing: Mapping[str, Any]) -> str:
    """A sentence about the settings of a local model that are open_clip's defaults; "" if there are none.

    Args:
        params: section `encoder`.
        preprocessing: what the model is used with (`Encoder.preprocessing`).
    """
    stated = _beside(params)
    if stated is None or _is_the_toy_worlds(params):
        return ""
    keys = [key for key, name in SETTINGS.items() if getattr(params, key) is None and name not in stated]
    if not keys:
        return ""
    used = ", ".join(f"{SETTINGS[key]} {_shown(preprocessing.get(SETTINGS[key]))}" for key in keys)
    options = ", ".join(f"--{key.replace('_', '-')}" for key in keys)
    return (
        f"{params.model}: its images are prepared with open_clip's defaults ({used}), since nothing states the model's "
        f"own; if it was trained with others, it gets fewer images right: state them ({options}, or in params.yaml "
        f"{', '.join(f'encoder.{key}' for key in keys)})"
    )


def _is_the_toy_worlds(params: EncoderParams) -> bool:
    """Whether a model is the toy world's, which is trained with open_clip's defaults (data/toy/pretrain.py)."""
    return params.weights_file is not None and params.weights_file.parts[-len(TOY.parts) :] == TOY.parts


def _beside(params: EncoderParams) -> Mapping[str, Any] | None:
    """What files beside the weights state of preprocessing; None if open_clip knows these weights, or their hub."""
    if params.model.startswith("local-dir:"):
        file = Path(params.model.removeprefix("local-dir:")) / "open_clip_config.json"
        # It was read to load the model.
        stated: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8")).get("preprocess_cfg") or {}
        return stated
    return None if params.weights_file is None else {}


def _shown(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(f"{number:.4g}" for number in value)
    return str(value)
