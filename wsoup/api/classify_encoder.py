"""The encoder that a soup or a head was made with, loaded again, and refused where it is another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wsoup.api import hf
from wsoup.core.errors import MismatchError, MissingError, ModelError, ParamsError
from wsoup.core.params.encoder import EncoderParams
from wsoup.core.params.section import parse, read_yaml
from wsoup.soup.soup import Soup
from wsoup.towers.encoder import Encoder, choose_device, load_encoder

CONTENT = ("config", "weights", "sha256", "quick_gelu", "precision")
"""What of an encoder's id says what it is; its names only say where it came from."""
PREPROCESSING = {"image_mean": "mean", "image_std": "std", "interpolation": "interpolation"}
"""Keys of section `encoder`, and what they are in a soup's preprocessing."""


@dataclass(frozen=True)
class Given:
    """What the user says of the encoder, as options; None where not given.

    Attributes:
        model, pretrained, config, image_mean, image_std, interpolation: as in section `encoder` of params.yaml.
    """

    model: str | None = None
    pretrained: str | None = None
    config: str | None = None
    image_mean: tuple[float, float, float] | None = None
    image_std: tuple[float, float, float] | None = None
    interpolation: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Those that were given."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def load(self, *, device: str | None, origin: str, known: Mapping[str, Any]) -> Encoder:
        """The encoder of these options, and of what is known where they say nothing.

        Raises:
            ModelError, MissingError: nobody has said where its weights are, or they cannot be loaded.
        """
        section = {"precision": "fp32", "watch": "data/nothing_to_watch.txt", **known, **self.options}
        if str(section["model"]).startswith(hf.HF):
            if unused := {*self.options} - {"model"}:
                raise ParamsError(
                    f"{section['model']} brings its own weights and preprocessing; leave out {min(unused)}"
                )
            return hf.load(section["model"], device=choose_device(device), precision=section["precision"])
        wanted = parse(EncoderParams, section, origin=f"encoder of {origin}")
        _check_there(wanted, origin=origin)
        return load_encoder(wanted, device=choose_device(device))


def encoder_of(
    soup: Soup, *, about: Mapping[str, Any], origin: str, params: Path, given: Given, device: str
) -> Encoder:
    """Load the encoder of a soup, or of a head on it, with the soup's own preprocessing.

    Its names come from the file. Where params.yaml of the working folder speaks of the same encoder, local files come
    from there; what the user gives goes first.

    Args:
        soup: whose encoder.
        about: the id of that encoder.
        origin: the file, for messages.
        params: a params.yaml; it need not be there.
        given: the user's options.
        device: auto, cpu, cuda...

    Raises:
        ModelError, MissingError: it is not known where its weights are, or they cannot be loaded.
        MismatchError: config, weights or preprocessing are not those that the soup was made with.
    """
    names = {"model": about.get("model"), "pretrained": about.get("pretrained")}
    images = {key: soup.preprocessing.get(name) for key, name in PREPROCESSING.items() if soup.preprocessing.get(name)}
    known = {**names, "precision": about.get("precision", "fp32"), **images}
    encoder = given.load(
        device=device, origin=origin, known=known if given.model else {**known, **_section(params, names=names)}
    )
    here = {**encoder.id, **encoder.preprocessing}
    there = {**{key: about[key] for key in CONTENT if about.get(key) is not None}, **soup.preprocessing}
    differing = [key for key, value in there.items() if here.get(key) != value]
    if differing:
        pairs = ", ".join(f"{key} {there[key]} there, {here.get(key)} here" for key in differing)
        raise MismatchError(
            f"{origin} was made with another encoder than {encoder.id['model']} / {encoder.id['pretrained']} "
            f"({pairs}); name that one with --model, --pretrained, --config, --image-mean and --image-std, or make a "
            "soup for this one"
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
    same = names["pretrained"] in (pretrained, Path(pretrained).name)
    return {key: value for key, value in section.items() if value is not None} if same else {}


def _check_there(wanted: EncoderParams, *, origin: str) -> None:
    """Raise where nobody has said where the weights are."""
    if wanted.pretrained is None and not wanted.comes_with_weights:
        raise ModelError(
            f"{origin} does not say how its encoder ({wanted.model}) is loaded; give --model and --pretrained, or make "
            "it with encoder={'model': ..., 'pretrained': ...}"
        )
    if wanted.weights_file is not None and not wanted.weights_file.is_file():
        raise MissingError(
            f"{origin} was made with local weights, {wanted.pretrained}, which are not here; run in the folder of its "
            "params.yaml, or give --pretrained FILE (and --config FILE)"
        )
