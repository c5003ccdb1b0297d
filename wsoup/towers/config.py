"""An open_clip model's JSON config, looked over before anything is built from it. Needs neither torch nor open_clip.

A config is data from somewhere: ``layers: 1000000000`` would build for ever, and ``image_size: "16"`` fails in the
middle of building. What open_clip itself reports well (a key that it does not know) is left to it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wsoup.core.errors import MissingError, ModelError, one_line
from wsoup.params.base.encoder import EncoderParams

LARGEST = {
    "layers": 1_000,
    "image_size": 10_000,
    "patch_size": 10_000,
    "context_length": 100_000,
    "vocab_size": 10_000_000,
    "width": 100_000,
    "heads": 10_000,
    "head_width": 100_000,
    "embed_dim": 100_000,
    "attn_pooler_queries": 100_000,
}
"""Whole numbers of a config and their upper bounds; larger than those of any model there is."""
LARGEST_RATIO = 100.0
MOST_PARAMETERS = 100_000_000_000
DEFAULTS = {
    "vision_cfg": {"layers": 12, "width": 768, "mlp_ratio": 4.0, "patch_size": 16, "image_size": 224},
    "text_cfg": {"layers": 12, "width": 512, "mlp_ratio": 4.0, "context_length": 77, "vocab_size": 49408},
}
"""open_clip's own (`CLIPVisionCfg`, `CLIPTextCfg`), which a config need not repeat."""
ELSEWHERE = ("timm_model_name", "hf_model_name")
"""Keys of a tower that open_clip takes from another library, whose sizes stand there."""


def read_config(path: Path) -> dict[str, Any]:
    """A local JSON config, checked.

    Raises:
        MissingError: no such file.
        ModelError: not JSON, not the config of a model, or a number that no model has.
    """
    if not path.is_file():
        raise MissingError(f"encoder.config: {path} does not exist, or is no file; correct it in params.yaml")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise ModelError(f"encoder.config: {path} is not JSON in UTF-8 ({one_line(error, limit=200)})") from None
    check_config(config, origin=path)
    return config


def check_config(config: Any, *, origin: str | Path) -> None:
    """Raise ModelError unless `config` is the config of a model of a size that can be built."""
    towers = [("", config), *((f"{name}.", _get(config, name)) for name in DEFAULTS)]
    for name, part in towers:
        if not isinstance(part, Mapping):
            what = f"{name.removesuffix('.') or 'it'} is {type(part).__name__}"
            raise ModelError(
                f"encoder.config: {origin} is not an open_clip model config: {what}, expected an object with "
                "embed_dim, vision_cfg and text_cfg"
            )
    if "embed_dim" not in config:
        raise ModelError(f"encoder.config: {origin} is not an open_clip model config: it has no embed_dim")
    for name, part in towers:
        for key, most in LARGEST.items():
            value = part.get(key)
            if key == "patch_size" and value is None and isinstance(part.get("layers"), list):
                continue  # a ResNet has none
            if key in part and not all(_is_size(one, most=most) for one in _each(value, key=key)):
                shown = one_line(repr(value), limit=80) if not isinstance(value, int) else _digits(value)
                raise ModelError(
                    f"encoder.config: {origin}: {name}{key} is {shown}, expected a whole number from 1 to {most:,}"
                )
        ratio = part.get("mlp_ratio", 4.0)
        if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio <= LARGEST_RATIO:
            shown = one_line(repr(ratio), limit=80)
            raise ModelError(
                f"encoder.config: {origin}: {name}mlp_ratio is {shown}, expected a number above 0, at most 100"
            )
    if (found := parameters(config)) > MOST_PARAMETERS:
        raise ModelError(
            f"encoder.config: {origin} asks for {found:,} parameters or more, {MOST_PARAMETERS:,} are the most; "
            "correct its layers and widths"
        )


def check_weights(config: Mapping[str, Any], *, weights: Path) -> None:
    """Raise ModelError where a weights file cannot hold the model: a parameter takes a byte at least."""
    size, wanted = weights.stat().st_size, parameters(config)
    if wanted > size:
        raise ModelError(
            f"encoder.pretrained: {weights} has {size:,} bytes, and encoder.config asks for {wanted:,} parameters or "
            "more; they do not belong together, or the file is truncated: download it again"
        )


def parameters(config: Mapping[str, Any]) -> int:
    """How many parameters a model has at least; towers of other libraries and ResNets count nothing."""
    total = 0
    for name, defaults in DEFAULTS.items():
        tower: dict[str, Any] = {**defaults, **config[name]}
        if any(tower.get(key) for key in ELSEWHERE) or not isinstance(tower["layers"], int):
            continue
        width, layers = tower["width"], tower["layers"]
        total += int(layers * width * width * (4 + 2 * tower["mlp_ratio"]))
        if name == "text_cfg":
            total += width * (tower["vocab_size"] + tower["context_length"])
        else:
            sides = [size // tower["patch_size"] for size in _each(tower["image_size"], key="image_size")]
            total += width * (3 * tower["patch_size"] ** 2 + (math.prod(sides) if len(sides) > 1 else sides[0] ** 2))
    return total


def known_config(params: EncoderParams) -> dict[str, Any] | None:
    """The config of section `encoder`: the local one, or open_clip's own of that name; None where neither is a file."""
    if params.config is not None:
        return read_config(Path(params.config))
    package = find_spec("open_clip")
    for folder in package.submodule_search_locations or () if package else ():
        file = Path(folder) / "model_configs" / f"{params.model.replace('/', '-')}.json"
        if file.is_file():
            return read_config(file)
    return None


def blocks(config: Mapping[str, Any]) -> dict[str, int]:
    """Transformer blocks of each tower, by its name in the config, where that says so."""
    found = {}
    for name, defaults in DEFAULTS.items():
        layers = config[name].get("layers", defaults["layers"])
        if isinstance(layers, int) and not any(config[name].get(key) for key in ELSEWHERE):
            found[name] = layers
    return found


def context_length(config: Mapping[str, Any]) -> int:
    """Tokens of a text."""
    return int(config["text_cfg"].get("context_length", DEFAULTS["text_cfg"]["context_length"]))


def _get(config: Any, key: str) -> Any:
    return config.get(key) if isinstance(config, Mapping) else config


def _each(value: Any, *, key: str) -> list[Any]:
    """The numbers of a value: a ResNet has four numbers of layers, an image may have two sides."""
    most = {"layers": 4, "image_size": 2}.get(key, 0)
    return list(value) if isinstance(value, list) and 0 < len(value) <= most else [value]


def _is_size(value: Any, *, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _digits(value: int) -> str:
    return str(value) if abs(value) < 10**30 else "a number of more than 30 digits"
