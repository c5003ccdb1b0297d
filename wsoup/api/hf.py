"""CLIP, SigLIP and SigLIP 2 of transformers, used as any model is: `wsoup.from_transformers`, ``--model hf:NAME``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from wsoup.api.model import in_memory
from wsoup.core.errors import ModelError, WsoupError, needing, one_line
from wsoup.towers.encoder import Encoder, check_device

HF = "hf:"
"""What names of such models begin with on the command line."""


class FromTransformers(nn.Module):
    """A model with its processor: `encode_text`, `encode_image`, and beside them `tokenizer` and `preprocess`.

    Attributes:
        model: of transformers, in eval mode, float32 weights.
        name: ``hf:NAME``, where it was loaded by a name.
        tokenizer: P texts -> (P, context) int64, padded, and cut where they are longer.
        preprocess: RGB image -> (3, H, W) float32; of SigLIP 2 with patches of its own (NaFlex) (1, patches, values).
        preprocessing: what that does, as JSON values.
    """

    def __init__(self, model: nn.Module, processor: Any, *, name: str | None) -> None:
        super().__init__()
        self.model, self.name = model.eval().float().requires_grad_(False), name
        context = model.config.get_text_config().max_position_embeddings  # type: ignore[union-attr, operator]
        self.tokenizer, self.preprocess = _Tokenizer(processor, context), _Preprocess(processor.image_processor)
        self.preprocessing = _about(processor.image_processor)

    @property
    def logit_scale(self) -> Tensor | None:
        """Its logarithm, as open_clip's models have it."""
        scale = getattr(self.model, "logit_scale", None)
        return scale.reshape(()) if isinstance(scale, Tensor) else None

    def encode_text(self, tokens: Tensor) -> Tensor:
        """(P, context) -> (P, D)."""
        return _features(self.model.get_text_features(input_ids=tokens))  # type: ignore[operator]

    def encode_image(self, images: Tensor) -> Tensor:
        """What `preprocess` gives, stacked -> (B, D)."""
        if images.shape[1] == 3:
            return _features(self.model.get_image_features(pixel_values=images))  # type: ignore[operator]
        patches, mask, shapes = images[:, 0, :, :-3], images[:, 0, :, -3], images[:, 0, 0, -2:]
        return _features(
            self.model.get_image_features(  # type: ignore[operator]
                pixel_values=patches, pixel_attention_mask=mask.int(), spatial_shapes=shapes.long()
            )
        )


class _Tokenizer:
    def __init__(self, processor: Any, context: int) -> None:
        self.processor, self.context = processor, context

    def __call__(self, texts: Sequence[str]) -> Tensor:
        how = {"padding": "max_length", "truncation": True, "max_length": self.context, "return_tensors": "pt"}
        return self.processor(text=list(texts), **how).input_ids


class _Preprocess:
    """Apart from the model, so that decoding processes are not sent its weights."""

    def __init__(self, image_processor: Any) -> None:
        self.image_processor = image_processor

    def __call__(self, image: Image.Image) -> Tensor:
        made = self.image_processor(images=image.convert("RGB"), return_tensors="pt")
        if "spatial_shapes" not in made:
            return made["pixel_values"][0]
        # One tensor an image: patches, and behind each whether it is one, and how many there are down and across.
        shapes = made["spatial_shapes"].float().expand(made["pixel_values"].shape[1], 2)
        return torch.cat([made["pixel_values"][0], made["pixel_attention_mask"][0, :, None].float(), shapes], dim=1)[
            None
        ]


def _features(made: Any) -> Tensor:
    """transformers 4 returns the features, 5 an object around them."""
    return made if isinstance(made, Tensor) else made.pooler_output


def _about(image_processor: Any) -> dict[str, Any]:
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
        processor: of a model itself, as `transformers.AutoProcessor` gives it.

    Returns:
        The model, with its `tokenizer` and `preprocess`.

    Raises:
        PackageError: transformers is not installed.
        ModelError: it cannot be loaded, or embeds no texts and images.
    """
    name = None
    with needing():
        import transformers
    if isinstance(model, str):
        name, source = f"{HF}{model}", model.removeprefix(HF)
        try:
            processor = processor or transformers.AutoProcessor.from_pretrained(source)
            model = transformers.AutoModel.from_pretrained(source)
        except WsoupError:
            raise
        except Exception as error:  # the hub, the file system and the model's own code raise what they like
            raise ModelError(
                f"transformers cannot load {source} ({one_line(error, limit=300)}); check the name"
            ) from None
    if not all(callable(getattr(model, part, None)) for part in ("get_text_features", "get_image_features")):
        raise ModelError(f"{type(model).__name__} embeds no texts and images; expected CLIP, SigLIP or SigLIP 2")
    if not hasattr(processor, "image_processor"):
        raise ModelError(
            f"processor is {type(processor).__name__}; expected transformers.AutoProcessor's of this model"
        )
    return FromTransformers(model, processor, name=name)


def load(name: str, *, device: torch.device, precision: str) -> Encoder:
    """The encoder of ``hf:NAME``; raises as `from_transformers`."""
    model = from_transformers(name.removeprefix(HF)).to(device)
    return in_memory(
        model,
        tokenizer=model.tokenizer,
        preprocess=model.preprocess,
        preprocessing=model.preprocessing,
        precision=precision,
        device=check_device(device),
    )
