"""Models in memory: any object with `encode_text` and `encode_image`, or CLIP and SigLIP models of transformers.

open_clip's models take the fast text path; for all others `encode_text` is called.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from wsoup.base.errors import ModelError, ParamsError, WsoupError, needing, one_line
from wsoup.runtime.process import kept_memory
from wsoup.runtime.progress import showing
from wsoup.texts.models import check_texts
from wsoup.towers.encoder import AUTOCAST, Encoder, preprocessing_of
from wsoup.towers.identity import encoder_id

HF = "hf:"
"""Prefix of a transformers model's name on the command line."""
Tokenizer = Callable[[Sequence[str]], Tensor]


@contextmanager
def at_work(model: object, *, bars: bool) -> Iterator[None]:
    """Put the model in eval mode within, and show progress bars if `bars`; restored afterwards."""
    module = as_module(model)
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        with showing(bars=bars), kept_memory():
            yield
    finally:
        for part in training:
            part.training = True


def as_module(model: object) -> nn.Module:
    """The model, or the modules that an object of another type wraps."""
    if isinstance(model, nn.Module):
        return model
    attributes = getattr(model, "__dict__", {})
    return nn.ModuleDict({name: part for name, part in attributes.items() if isinstance(part, nn.Module)})


def device_of(model: object) -> torch.device:
    """Device of the model's weights; the CPU for a model without weights."""
    return next((weight.device for weight in as_module(model).parameters()), torch.device("cpu"))


def in_memory(
    model: Any,
    *,
    tokenizer: Tokenizer | None = None,
    preprocess: Callable[[Image.Image], Tensor] | None = None,
    names: Mapping[str, str | None] | None = None,
    precision: str,
) -> Encoder:
    """The encoder of a model in memory.

    Args:
        model: the model, on its device.
        tokenizer, preprocess: None if only images, or only texts, are encoded.
        names: `model` and `pretrained` as open_clip names them, so that others can load the encoder by its id
            (default: the model's `name`, or that of its class).
        precision: of the matrix products.

    Raises:
        ModelError: it does not encode texts. ParamsError: another key in `names`.
    """
    device = device_of(model)
    if tokenizer is not None:
        check_texts(model, tokenizer, device=device)
    return Encoder(
        model=model,
        tokenizer=tokenizer or _not_given,
        preprocess=preprocess or _not_given,
        id=_identity(model, tokenizer, names=names or {}, precision=precision),
        preprocessing=preprocessing_of(model),
        device=device,
        dtype=AUTOCAST[precision],
    )


def _not_given(_: object) -> Tensor:
    raise ModelError("this encoder is for images only, or for texts only")


def _identity(
    model: Any, tokenizer: Tokenizer | None, *, names: Mapping[str, str | None], precision: str
) -> dict[str, Any]:
    """The encoder id, as the pipeline writes it; weights are None for a model without weights."""
    unknown = sorted(set(names) - {"model", "pretrained"})
    if unknown:
        raise ParamsError(f"encoder has {unknown[0]!r}; expected model and pretrained, as open_clip names them")
    module = as_module(model)
    identity = encoder_id(
        module,
        tokenizer=tokenizer or (lambda _: torch.empty(0)),
        model_name=names.get("model") or getattr(model, "name", None) or type(model).__name__,
        pretrained=names.get("pretrained"),
        precision=precision,
    )
    return identity if any(True for _ in module.parameters()) else {**identity, "weights": None}


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
        self.tokenizer, self.preprocess = _Tokenizer(processor, context), _Preprocess(processor.image_processor)
        self.preprocessing = self.preprocess.description

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


class _Tokenizer:
    def __init__(self, processor: Any, context: int) -> None:
        self.processor, self.context = processor, context

    def __call__(self, texts: Sequence[str]) -> Tensor:
        options = {"padding": "max_length", "truncation": True, "max_length": self.context, "return_tensors": "pt"}
        return self.processor(text=list(texts), **options).input_ids


class _Preprocess:
    """Separate from the model, so that decoding processes are not sent its weights."""

    def __init__(self, image_processor: Any) -> None:
        self.image_processor = image_processor

    def __call__(self, image: Image.Image) -> Tensor:
        inputs = self.image_processor(images=image.convert("RGB"), return_tensors="pt")
        pixels = inputs["pixel_values"]
        if "spatial_shapes" not in inputs:
            return pixels[0]
        # One tensor per image: each patch, whether it is one or padding, and the numbers of rows and columns.
        shape = inputs["spatial_shapes"].float().expand(pixels.shape[1], 2)
        return torch.cat([pixels[0], inputs["pixel_attention_mask"][0, :, None].float(), shape], dim=1)[None]

    @property
    def description(self) -> dict[str, Any]:
        """What it does to an image, as JSON values."""
        size = dict(getattr(self.image_processor, "size", None) or {})
        resample = getattr(self.image_processor, "resample", None)
        return {
            "size": " ".join(f"{name} {value}" for name, value in size.items() if value) or None,
            "mean": list(self.image_processor.image_mean),
            "std": list(self.image_processor.image_std),
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
    if not all(callable(getattr(model, part, None)) for part in ("get_text_features", "get_image_features")):
        raise ModelError(f"{type(model).__name__} does not embed texts and images; expected CLIP, SigLIP or SigLIP 2")
    if not hasattr(processor, "image_processor"):
        raise ModelError(
            f"processor is {type(processor).__name__}; expected the model's own from transformers.AutoProcessor"
        )
    return FromTransformers(model, processor, name=name)


def load_transformers(name: str, *, device: torch.device, precision: str) -> Encoder:
    """The encoder of ``hf:NAME``; raises as `from_transformers`."""
    model = from_transformers(name.removeprefix(HF)).to(device)
    return in_memory(model, tokenizer=model.tokenizer, preprocess=model.preprocess, precision=precision)
