"""Encoders by name: of a soup or a head, from its record, params.yaml and a user's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wsoup.api.model import in_memory
from wsoup.api.transformers import HF, from_transformers
from wsoup.base.errors import MismatchError, MissingError, ModelError, ParamsError
from wsoup.params.inputs import EncoderParams
from wsoup.params.section import parse, read_yaml
from wsoup.soup.soup import Soup
from wsoup.towers.encoder import Encoder, choose_device, load_encoder

IDENTITY = ("config", "weights", "sha256", "quick_gelu", "precision")
"""Keys of an encoder id that decide its features; the other keys are names."""
PREPROCESSING = {"image_mean": "mean", "image_std": "std", "interpolation": "interpolation"}
"""Keys of section `encoder` -> keys of a soup's preprocessing."""
DEFAULTS = {"model": "ViT-B-32", "pretrained": "openai"}
"""The encoder where nothing names one."""
PATIENCE = 5.0
"""Seconds to wait for the hub."""


@dataclass(frozen=True)
class EncoderOptions:
    """Options about the encoder, as in section `encoder` of params.yaml; None if not given."""

    model: str | None = None
    pretrained: str | None = None
    config: str | None = None
    image_mean: tuple[float, float, float] | None = None
    image_std: tuple[float, float, float] | None = None
    interpolation: str | None = None

    def load(self, *, device: str | None, origin: str, defaults: Mapping[str, str]) -> Encoder:
        """Load the encoder of these options, completed by `defaults`; messages name `origin`.

        Raises:
            ModelError, MissingError: its weights are unknown, missing or cannot be loaded.
            ParamsError: options that a model of transformers does not take.
        """
        given = self._given()
        section = {"precision": "fp32", "watch": "data/nothing_to_watch.txt", **defaults, **given}
        if str(section["model"]).startswith(HF):
            if unused := {*given} - {"model"}:
                raise ParamsError(
                    f"{section['model']} brings its own weights and preprocessing; leave out {min(unused)}"
                )
            clip = from_transformers(section["model"].removeprefix(HF)).to(choose_device(device))
            return in_memory(clip, tokenizer=clip.tokenizer, preprocess=clip.preprocess, precision=section["precision"])
        params = parse(EncoderParams, section, origin=f"encoder of {origin}")
        if params.pretrained is None and not params.comes_with_weights:
            raise ModelError(
                f"{origin} does not say how its encoder ({params.model}) is loaded; give --model and --pretrained, or "
                "make it with encoder={'model': ..., 'pretrained': ...}"
            )
        if params.weights_file is None:
            _offline_unless_the_hub_answers()
        elif not params.weights_file.is_file():
            raise MissingError(
                f"{params.pretrained}, the weights of {origin}, is not a file here; run in the folder of its "
                "params.yaml, or correct --pretrained FILE (and --config FILE)"
            )
        return load_encoder(params, device=choose_device(device))

    def _given(self) -> dict[str, Any]:
        model = {"model": Path(self.config).stem} if self.config is not None else {}
        return model | {name: value for name, value in asdict(self).items() if value is not None}

    def section(self) -> dict[str, Any]:
        """Section `encoder` of a params.yaml that loads the same encoder from any folder."""
        section = {**DEFAULTS, **self._given()}
        return {
            key: str(Path(value).resolve()) if key in ("pretrained", "config") and Path(value).is_file() else value
            for key, value in section.items()
        } | {key: [*section[key]] for key in ("image_mean", "image_std") if key in section}

    def of_params(self, params: Path, *, device: str) -> Encoder:
        """Load the encoder of a params.yaml, or the default one where there is none."""
        defaults = DEFAULTS if self.model else _in_params(params) or DEFAULTS
        return self.load(device=device, origin=str(params), defaults=defaults)


def _offline_unless_the_hub_answers() -> None:
    """Spare a user without Hugging Face's hub a minute of retries."""
    from huggingface_hub import constants, get_session

    if not constants.HF_HUB_OFFLINE:
        try:
            get_session().head(constants.ENDPOINT, timeout=PATIENCE)
        except Exception:  # whatever keeps it from answering
            constants.HF_HUB_OFFLINE = True


def encoder_of(
    soup: Soup, *, encoder_id: Mapping[str, Any], origin: str, params: Path, options: EncoderOptions, device: str
) -> Encoder:
    """Load the encoder of a soup, or of a head on it, with the soup's preprocessing.

    Its names come from `encoder_id`, and local files from params.yaml if that is about the same encoder; options
    override both.

    Args:
        soup: the soup.
        encoder_id: of the soup or the head.
        origin: the file, for messages.
        params: a params.yaml, which may be missing.
        options: of the user.
        device: auto, cpu, cuda...

    Raises:
        ModelError, MissingError: its weights are unknown, missing or cannot be loaded.
        MismatchError: its config, weights or preprocessing differ from those the soup was made with.
    """
    names = {"model": encoder_id.get("model"), "pretrained": encoder_id.get("pretrained")}
    images = {key: soup.preprocessing.get(name) for key, name in PREPROCESSING.items() if soup.preprocessing.get(name)}
    defaults = {**names, "precision": encoder_id.get("precision", "fp32"), **images}
    known = _in_params(params) if options.model is None else {}
    pretrained = str(known.get("pretrained"))
    if known.get("model") == names["model"] and names["pretrained"] in (pretrained, Path(pretrained).name):
        defaults |= known
    encoder = options.load(device=device, origin=origin, defaults=defaults)
    loaded = {**encoder.id, **encoder.preprocessing}
    expected = {key: encoder_id[key] for key in IDENTITY if encoder_id.get(key) is not None} | dict(soup.preprocessing)
    differing = [key for key, value in expected.items() if loaded.get(key) != value]
    if differing:
        pairs = ", ".join(f"{key} {expected[key]} there, {loaded.get(key)} here" for key in differing)
        raise MismatchError(
            f"{origin} was made with another encoder than {encoder.id['model']} / {encoder.id['pretrained']} "
            f"({pairs}); name that one with --model, --pretrained, --config, --image-mean and --image-std, or make a "
            "soup for this one"
        )
    return encoder


def _in_params(params: Path) -> dict[str, Any]:
    """Section encoder of a params.yaml without its empty keys; {} where there is none."""
    section = read_yaml(params).get("encoder") if params.is_file() else None
    return {key: value for key, value in section.items() if value is not None} if isinstance(section, dict) else {}
