"""Encoders by name: of a soup or a head, from its record, params.yaml and a user's options; models of transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from wsoup.api.model import in_memory
from wsoup.base.errors import MismatchError, MissingError, ModelError, ParamsError, WsoupError, needing, one_line
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
HF = "hf:"
"""Prefix of a transformers model's name on the command line."""
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


# ------------------------------------------------------------------------------------------------- transformers


class FromTransformers(nn.Module):
    """A transformers model with the interface of open_clip's, and its processor as `tokenizer` and `preprocess`.

    Attributes:
        model: of transformers, in eval mode, float32 weights.
        name: ``hf:NAME`` if it was loaded by name.
        tokenizer: P texts -> (P, context) int64, padded or truncated.
        preprocess: RGB image -> (3, H, W) float32; for SigLIP 2 with variable patches (NaFlex) (1, patches, values).
        preprocessing: description of `preprocess`, as JSON values.
    """

    def __init__(self, model: nn.Module, processor: Any, *, name: str | None) -> None:
        super().__init__()
        self.model, self.name = model.eval().float().requires_grad_(False), name
        context = model.config.get_text_config().max_position_embeddings  # type: ignore[union-attr, operator]
        self.tokenizer = partial(_tokens, processor, context)
        self.preprocess = partial(_pixels, processor.image_processor)  # without the model: it goes to other processes
        self.preprocessing = _described(processor.image_processor)

    @property
    def logit_scale(self) -> Tensor | None:
        """Logarithm of the logit scale, as in open_clip's models."""
        scale = getattr(self.model, "logit_scale", None)
        return scale.reshape(()) if isinstance(scale, Tensor) else None

    def encode_text(self, tokens: Tensor) -> Tensor:
        """(P, context) -> (P, D)."""
        return _features(self.model.get_text_features(input_ids=tokens))  # type: ignore[operator]

    def encode_image(self, images: Tensor) -> Tensor:
        """Stacked outputs of `preprocess` -> (B, D)."""
        inputs = {"pixel_values": images}
        if images.shape[1] != 3:
            inputs = {
                "pixel_values": images[:, 0, :, :-3],
                "pixel_attention_mask": images[:, 0, :, -3].int(),
                "spatial_shapes": images[:, 0, 0, -2:].long(),
            }
        return _features(self.model.get_image_features(**inputs))  # type: ignore[operator]


def _features(output: Any) -> Tensor:
    """transformers 4 returns the features, 5 an object around them."""
    return output if isinstance(output, Tensor) else output.pooler_output


def _tokens(processor: Any, context: int, texts: Sequence[str]) -> Tensor:
    options = {"padding": "max_length", "truncation": True, "max_length": context, "return_tensors": "pt"}
    return processor(text=list(texts), **options).input_ids


def _pixels(image_processor: Any, image: Image.Image) -> Tensor:
    inputs = image_processor(images=image.convert("RGB"), return_tensors="pt")
    pixels = inputs["pixel_values"]
    if "spatial_shapes" not in inputs:
        return pixels[0]
    # One tensor per image: each patch, whether it is one or padding, and the numbers of rows and columns.
    shape = inputs["spatial_shapes"].float().expand(pixels.shape[1], 2)
    return torch.cat([pixels[0], inputs["pixel_attention_mask"][0, :, None].float(), shape], dim=1)[None]


def _described(image_processor: Any) -> dict[str, Any]:
    """What an image processor does to an image, as JSON values."""
    size = dict(getattr(image_processor, "size", None) or {})
    resample = getattr(image_processor, "resample", None)
    return {
        "size": " ".join(f"{name} {value}" for name, value in size.items() if value) or None,
        "mean": list(image_processor.image_mean),
        "std": list(image_processor.image_std),
        "interpolation": None if resample is None else Image.Resampling(int(resample)).name.lower(),
    }


def from_transformers(model: Any, *, processor: Any = None) -> FromTransformers:
    """A CLIP, SigLIP or SigLIP 2 of transformers, for every function that takes `model`.

    Args:
        model: its name on the hub, its folder, or the model itself.
        processor: for a model itself, as returned by `transformers.AutoProcessor`.

    Returns:
        The model, with its `tokenizer` and `preprocess`.

    Raises:
        PackageError: transformers is not installed.
        ModelError: it cannot be loaded, or does not embed texts and images.
    """
    with needing():
        import transformers
    name = None
    if isinstance(model, str):
        name, source = f"{HF}{model}", model.removeprefix(HF)
        try:
            processor = processor or transformers.AutoProcessor.from_pretrained(source)
            model = transformers.AutoModel.from_pretrained(source)
        except WsoupError:
            raise
        except Exception as error:  # the hub, the file system and the model's own code raise anything
            raise ModelError(
                f"transformers cannot load {source} ({one_line(error, limit=300)}); check the name"
            ) from None
    embeds = all(callable(getattr(model, part, None)) for part in ("get_text_features", "get_image_features"))
    if not embeds or not hasattr(processor, "image_processor"):
        raise ModelError(
            f"{type(model).__name__} with {type(processor).__name__}: expected CLIP, SigLIP or SigLIP 2, and its own "
            "processor= from transformers.AutoProcessor"
        )
    return FromTransformers(model, processor, name=name)
