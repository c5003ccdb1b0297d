"""The encoder that a soup was made with, loaded again, and refused where it is another one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wsoup.core.errors import MismatchError, MissingError, ModelError
from wsoup.params.base.encoder import EncoderParams
from wsoup.params.base.section import parse, read_yaml
from wsoup.soup.soup import Soup
from wsoup.towers.encoder import Encoder, choose_device, load_encoder

CONTENT = ("config", "weights", "sha256", "quick_gelu", "precision")
"""What of an encoder's id says what it is; its names only say where it came from."""


def encoder_of(
    soup: Soup, *, origin: str, params: Path, given: Mapping[str, str | None], device: str | None
) -> Encoder:
    """Load the encoder of a soup.

    Its names come from the soup file. Where params.yaml of the working folder speaks of the same encoder, local files
    and preprocessing come from there; what the user gives goes first.

    Args:
        soup: whose encoder.
        origin: the soup file, for messages.
        params: a params.yaml; it need not be there.
        given: model, pretrained and config, as options; None where not given.
        device: auto, cpu, cuda...

    Raises:
        ModelError, MissingError: it is not known where its weights are, or they cannot be loaded.
        MismatchError: config or weights are not those that the soup was made with.
    """
    options = {name: value for name, value in given.items() if value is not None}
    names = {"model": soup.encoder.get("model"), "pretrained": soup.encoder.get("pretrained")}
    section = {**names, "precision": soup.encoder.get("precision", "fp32"), "watch": "data/nothing_to_watch.txt"}
    section |= options if options else _section(params, names=names)
    wanted = parse(EncoderParams, section, origin=f"encoder of {origin}")
    _check_there(wanted, origin=origin)
    encoder = load_encoder(wanted, device=choose_device(device))
    differing = [
        key for key in CONTENT if soup.encoder.get(key) is not None and soup.encoder[key] != encoder.id.get(key)
    ]
    if differing:
        pairs = ", ".join(f"{key} {soup.encoder[key]} there, {encoder.id.get(key)} here" for key in differing)
        raise MismatchError(
            f"{origin} was made with another encoder than {wanted.model} / {wanted.pretrained} ({pairs}); name that "
            "encoder with --model, --pretrained and --config, or make a soup for this one"
        )
    return encoder


def _section(params: Path, *, names: Mapping[str, Any]) -> dict[str, Any]:
    """Section encoder of params.yaml, where it is there and of the same model and weights."""
    if not params.is_file():
        return {}
    section = read_yaml(params).get("encoder")
    if not isinstance(section, dict) or section.get("model") != names["model"]:
        return {}
    pretrained = str(section.get("pretrained"))
    return section if names["pretrained"] in (pretrained, Path(pretrained).name) else {}


def _check_there(wanted: EncoderParams, *, origin: str) -> None:
    """Raise where nobody has said where the weights are."""
    if wanted.pretrained is None and not wanted.comes_with_weights:
        raise ModelError(
            f"{origin} was made in memory and does not say how its encoder ({wanted.model}) is loaded; give --model "
            "and --pretrained, or make it with encoder={'model': ..., 'pretrained': ...}"
        )
    if wanted.weights_file is not None and not wanted.weights_file.is_file():
        raise MissingError(
            f"{origin} was made with local weights, {wanted.pretrained}, which are not here; run in the folder of its "
            "params.yaml, or give --pretrained FILE (and --config FILE)"
        )
