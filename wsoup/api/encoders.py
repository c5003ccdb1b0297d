"""Encoders by name: of a soup or a head, from its record, params.yaml and a user's options."""

from __future__ import annotations

import logging
import sys
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wsoup.api.hub import DEFAULTS, is_weights_file, unreachable, work_offline_unless_the_hub_answers
from wsoup.api.model import in_memory
from wsoup.api.transformers import HF, from_transformers
from wsoup.base.errors import MismatchError, MissingError, ModelError, ParamsError
from wsoup.core.soup import Soup
from wsoup.paper.tables import pair_of
from wsoup.params.inputs import EncoderParams
from wsoup.params.reading import read_yaml
from wsoup.params.section import parse
from wsoup.towers.config import known_config
from wsoup.towers.encoder import Encoder, choose_device, load_encoder
from wsoup.towers.unstated import SETTINGS, unstated

IDENTITY = ("config", "weights", "sha256", "quick_gelu", "precision")
"""Keys of an encoder id that decide its features; the other keys are names."""
BESIDE = "encoder.yaml"
"""How an encoder is loaded, beside a soup or head that `wsoup try` wrote."""


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
            unused = {*given} - {"model"}
            if unused:
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
        self._check_together(params)
        if params.weights_file is None:
            return _downloaded(params, device=device)
        if not params.weights_file.is_file():
            step = "correct --pretrained FILE (and --config FILE)"
            if self.pretrained is None:
                step = (
                    "name the params.yaml or encoder.yaml that has its path (--params FILE), or the file itself "
                    "(--pretrained FILE, and --config FILE)"
                )
            raise MissingError(f"{params.pretrained}, the weights of {origin}, is not a file here; {step}")
        try:
            return _loaded(params, device=device)
        except ModelError:
            # Each params.yaml says what DVC watches. Where one lacks the config, it is the place for it.
            if "watch" not in defaults:
                _check_known(params)
            raise

    def check_files(self, *, origin: str) -> None:
        """Raise ParamsError for options that make no encoder, before anything is loaded; messages name `origin`."""
        self.check_for_a_new_encoder()
        section = {"precision": "fp32", "watch": "data/nothing_to_watch.txt", **DEFAULTS, **self._given()}
        self._check_together(parse(EncoderParams, section, origin=f"encoder of {origin}"))

    def check_for_a_new_encoder(self) -> None:
        """Raise ParamsError for a weights file alone, where no soup, head or params.yaml names its model."""
        if self.pretrained is None or self.model is not None or self.config is not None:
            return
        if is_weights_file(self.pretrained):
            raise ParamsError(
                f"--pretrained {self.pretrained} is a weights file; name its model, too: --config FILE (its open_clip "
                "config), or --model NAME if open_clip has it"
            )

    def _check_together(self, params: EncoderParams) -> None:
        """Raise ParamsError for options of a local model of which one is missing or contradicts another."""
        if self.config is not None and params.weights_file is None:
            raise ParamsError(f"--config {self.config} is a model without weights; add --pretrained FILE")
        if self.config is not None and params.model != Path(self.config).stem:
            raise ParamsError(f"--config {self.config} names the model itself; leave out --model {params.model}")
        if self.model is not None:
            _check_known(params)

    def _may_be(self, known: Mapping[str, Any]) -> bool:
        """Whether a section `encoder` is about the encoder of these options, or they name no model."""
        given = self._given()
        if "model" not in given:
            return True
        if self.pretrained is None:
            return self.model is None and known.get("model") == given["model"]
        same_weights = Path(self.pretrained).resolve() == Path(str(known.get("pretrained"))).resolve()
        return known.get("model") == given["model"] and same_weights

    def _given(self) -> dict[str, Any]:
        given = {name: value for name, value in asdict(self).items() if value is not None}
        if self.config is None:
            return given
        # A config names its model by its file's name.
        return {"model": Path(self.config).stem, **given}

    def name_another_than(self, encoder_id: Mapping[str, object]) -> bool:
        """Whether these options name another model or other weights; a model's name may end in its activation."""
        given = {"model": encoder_id["model"], "pretrained": encoder_id["pretrained"], **self._given()}
        return "config" in given or pair_of(given) != pair_of(encoder_id)

    def section(self) -> dict[str, object]:
        """Section `encoder` of a params.yaml that loads the same encoder from any folder."""
        section = {**DEFAULTS, **self._given()}
        for key in ("pretrained", "config"):
            if key in section and Path(section[key]).is_file():
                section[key] = str(Path(section[key]).resolve())
        for key in ("image_mean", "image_std"):
            if key in section:
                section[key] = list(section[key])  # YAML knows no tuples
        return section

    def of_params(self, params: Path, *, device: str) -> Encoder:
        """Load the encoder of a params.yaml, or the default one where there is none.

        If these options name another model or other weights, the section says nothing of its preprocessing.
        """
        known = _in_params(params)
        defaults = known if known and self._may_be(known) else DEFAULTS
        if defaults is DEFAULTS:
            self.check_for_a_new_encoder()
        return self.load(device=device, origin=str(params), defaults=defaults)


def _check_known(params: EncoderParams) -> None:
    """Raise ParamsError for a local model without a config, unless open_clip has one of its name."""
    is_own = params.weights_file is not None and params.config is None and not params.comes_with_weights
    if is_own and known_config(params) is None:
        raise ParamsError(
            f"open_clip has no model {params.model!r}; for a model of your own give --config FILE (its open_clip "
            "config) beside --pretrained FILE"
        )


def _loaded(params: EncoderParams, *, device: str | None) -> Encoder:
    """Load an encoder, with a line on stderr if its images are prepared in a way that nobody stated."""
    encoder = load_encoder(params, device=choose_device(device))
    note = unstated(params, encoder.preprocessing)
    if note:
        print(note, file=sys.stderr)
    return encoder


def _downloaded(params: EncoderParams, *, device: str | None) -> Encoder:
    """Load an encoder with weights of the hub, or those downloaded before."""
    names = {"model": params.model, "pretrained": str(params.pretrained)}
    if params.model.startswith("local-dir:"):
        return _loaded(params, device=device)
    work_offline_unless_the_hub_answers(**names)
    from huggingface_hub import constants

    if not constants.HF_HUB_OFFLINE:
        return load_encoder(params, device=choose_device(device))
    logging.disable(logging.ERROR)  # open_clip logs what its error says again
    try:
        return load_encoder(params, device=choose_device(device))
    except ModelError as error:
        if "Failed to download" in str(error):
            raise ModelError(unreachable(**names)) from None
        raise
    finally:
        logging.disable(logging.NOTSET)


def encoder_of(
    soup: Soup, *, encoder_id: Mapping[str, Any], origin: str, params: Path, options: EncoderOptions, device: str
) -> Encoder:
    """Load the encoder of a soup, or of a head on it, with the soup's preprocessing.

    Its names come from `encoder_id`, and local files from params.yaml, or from encoder.yaml beside the soup or head, if
    that is about the same encoder; options override both.

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
    by_id = {**names, "precision": encoder_id.get("precision", "fp32")}
    # The soup remembers the preprocessing that params.yaml gave a local model.
    by_soup = {key: soup.preprocessing[name] for key, name in SETTINGS.items() if soup.preprocessing.get(name)}
    by_file: dict[str, Any] = {}
    if options.model is None:
        # What `wsoup try` writes beside its soup and head says the same as params.yaml.
        by_file = _first_about(names, files=(params, Path(origin).parent / BESIDE))
    # The first that has a key decides.
    defaults = dict(ChainMap(by_file, by_soup, by_id))
    encoder = options.load(device=device, origin=origin, defaults=defaults)
    loaded = {**encoder.id, **encoder.preprocessing}
    expected = {key: encoder_id[key] for key in IDENTITY if encoder_id.get(key) is not None}
    expected |= dict(soup.preprocessing)
    pairs = []
    for key, value in expected.items():
        if loaded.get(key) != value:
            pairs.append(f"{key} {value} there, {loaded.get(key)} here")
    if pairs:
        raise MismatchError(
            f"{origin} was made with another encoder than {encoder.id['model']} / {encoder.id['pretrained']} "
            f"({', '.join(pairs)}); name that one with --model, --pretrained, --config, --image-mean and --image-std, "
            "or make a soup for this one"
        )
    return encoder


def names_another(params: Path, encoder_id: Mapping[str, object]) -> bool:
    """Whether section `encoder` of a params.yaml is about another encoder than that of an id."""
    known = _in_params(params)
    return "model" in known and pair_of({"pretrained": None, **known}) != pair_of(encoder_id)


def _first_about(names: Mapping[str, object], *, files: Sequence[Path]) -> dict[str, Any]:
    """Section `encoder` of the first of some files that is about the encoder of these names; {} if none is."""
    for file in files:
        known = _in_params(file)
        if _is_about(known, names):
            return known
    return {}


def _is_about(known: Mapping[str, Any], names: Mapping[str, object]) -> bool:
    """Whether a section `encoder` is about the encoder of these names."""
    pretrained = str(known.get("pretrained"))
    # An id names a weights file without its folder, which params.yaml knows.
    same_weights = names["pretrained"] in (pretrained, Path(pretrained).name)
    return known.get("model") == names["model"] and same_weights


def _in_params(params: Path) -> dict[str, Any]:
    """Section encoder of a params.yaml without its empty keys; {} where there is none."""
    if not params.is_file():
        return {}
    section = read_yaml(params).get("encoder")
    if not isinstance(section, dict):
        return {}
    return {key: value for key, value in section.items() if value is not None}
