"""Models of transformers, with the interface of open_clip's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from wsoup.base.errors import ModelError, WsoupError, needing, one_line
from wsoup.towers.models import cleaning

HF = "hf:"
"""Prefix of a transformers model's name on the command line."""
CLEANED = {"clip": "lower", "siglip": "canonicalize", "siglip2": "canonicalize"}
"""Types of models -> how open_clip's configurations of the same weights clean texts before they are tokenized."""


class FromTransformers(nn.Module):
    """A transformers model with the interface of open_clip's, and its processor as `tokenizer` and `preprocess`.

    Attributes:
        model: of transformers, in eval mode, float32 weights.
        name: ``hf:NAME`` if it was loaded by name.
        tokenizer: P texts -> (P, context) int64, padded or truncated, and cleaned before as in open_clip.
        preprocess: RGB image -> (3, H, W) float32; for SigLIP 2 with variable patches (NaFlex) (1, patches, values).
        preprocessing: description of `preprocess`, as JSON values.
    """

    def __init__(self, model: nn.Module, processor: Any, *, name: str | None) -> None:
        super().__init__()
        self.model = model.eval().float().requires_grad_(False)
        self.name = name
        context = model.config.get_text_config().max_position_embeddings  # type: ignore[union-attr, operator]
        self.tokenizer = partial(_tokens, processor, context, _cleaning_of(model, processor))
        # It does not hold the model, because it goes to other processes.
        self.preprocess = partial(_pixels, processor.image_processor)
        self.preprocessing = _described(processor.image_processor)

    @property
    def logit_scale(self) -> Tensor | None:
        """Logarithm of the logit scale, as in open_clip's models."""
        scale = getattr(self.model, "logit_scale", None)
        if not isinstance(scale, Tensor):
            return None
        # SigLIP's is not a number but an array of one.
        return scale.reshape(())

    def encode_text(self, tokens: Tensor) -> Tensor:
        """(P, context) -> (P, D)."""
        return _features(self.model.get_text_features(input_ids=tokens))  # type: ignore[operator]

    def encode_image(self, images: Tensor) -> Tensor:
        """Stacked outputs of `preprocess` -> (B, D)."""
        inputs = {"pixel_values": images}
        if images.shape[1] != 3:
            # Patches of NaFlex, as `_pixels` packed them into one tensor.
            inputs = {
                "pixel_values": images[:, 0, :, :-3],
                "pixel_attention_mask": images[:, 0, :, -3].int(),
                "spatial_shapes": images[:, 0, 0, -2:].long(),
            }
        return _features(self.model.get_image_features(**inputs))  # type: ignore[operator]


def _features(output: Any) -> Tensor:
    """transformers 4 returns the features, 5 an object around them."""
    if isinstance(output, Tensor):
        return output
    return output.pooler_output


def _cleaning_of(model: nn.Module, processor: Any) -> Callable[[str], str]:
    """What is done to a text before it is tokenized; a warning if it is not known what was done in training."""
    kind: str = model.config.model_type  # type: ignore[union-attr, assignment]
    if kind in CLEANED:
        return cleaning(CLEANED[kind])
    capitals, plain = (processor(text=text).input_ids for text in ("A PHOTO", "a photo"))
    if list(capitals) != list(plain):
        warnings.warn(
            f"it is not known whether a model of type {kind} was trained on texts in lower case; they are used as they "
            "are, with capitals and punctuation: give class names and templates in lower case if it was",
            stacklevel=4,
        )
    return str


def _tokens(processor: Any, context: int, clean: Callable[[str], str], texts: Sequence[str]) -> Tensor:
    options = {"padding": "max_length", "truncation": True, "max_length": context, "return_tensors": "pt"}
    return processor(text=[clean(text) for text in texts], **options).input_ids


def _pixels(image_processor: Any, image: Image.Image) -> Tensor:
    inputs = image_processor(images=image.convert("RGB"), return_tensors="pt")
    pixels = inputs["pixel_values"]
    if "spatial_shapes" not in inputs:
        return pixels[0]
    # One tensor per image: each patch, whether it is one or padding, and the numbers of rows and columns.
    shape = inputs["spatial_shapes"].float().expand(pixels.shape[1], 2)
    is_patch = inputs["pixel_attention_mask"][0, :, None].float()
    packed = torch.cat([pixels[0], is_patch, shape], dim=1)
    return packed[None]


def _described(image_processor: Any) -> dict[str, Any]:
    """What an image processor does to an image, as JSON values."""
    size = dict(getattr(image_processor, "size", None) or {})
    given = [f"{name} {value}" for name, value in size.items() if value]
    resample = getattr(image_processor, "resample", None)
    interpolation = None
    if resample is not None:
        interpolation = Image.Resampling(int(resample)).name.lower()
    return {
        "size": " ".join(given) or None,
        "mean": list(image_processor.image_mean),
        "std": list(image_processor.image_std),
        "interpolation": interpolation,
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
        name = f"{HF}{model}"
        source = model.removeprefix(HF)
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
