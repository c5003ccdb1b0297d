"""Encoders: models with tokenizer, preprocessing, identity and device, and reference encoding of texts.

Any model name and ``pretrained`` tag of open_clip works, and so does a local JSON config with local weights. Only
`wsoup.towers` loads models. The fast text encoder in `wsoup.texts` is tested against `Encoder.encode_texts` here, which
is `model.encode_text` at the full context length.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.base.errors import MissingError, ModelError, one_line
from wsoup.disk.store import fingerprint
from wsoup.params.inputs import EncoderParams
from wsoup.towers.config import check_weights
from wsoup.towers.identity import encoder_id
from wsoup.towers.kept import Kept
from wsoup.towers.models import build, check_name, tokenizer_of
from wsoup.towers.pure import PURE, make_pure

CPU_IMAGES = 32
"""Largest batch of images on a CPU: larger ones take more memory and more time per image."""
AUTOCAST = {"fp32": None, "reference": None, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Encoder:
    """A loaded image-text model.

    Attributes:
        model: the open_clip model in eval mode; its weights are float32, or as `PURE` says.
        tokenizer: texts -> (B, context) int64.
        preprocess: RGB image -> (3, H, W) float32: resize, centre crop and normalise as the model requires.
        id: model, pretrained, config and weights (`encoder_id`), quick_gelu, precision; JSON values.
        preprocessing: size, mean, std, interpolation, resize_mode, and decoding if not upright; JSON values.
        device: of the model.
        dtype: autocast dtype, or None for float32.
        load: loads the same encoder in another process; None if it was not loaded from files.
        kept: what was made of a user's model in its present state; None for a model that was loaded for one run, whose
            weights may be changed.
    """

    model: nn.Module
    tokenizer: Callable[[Sequence[str]], Tensor]
    preprocess: Callable[[Image.Image], Tensor]
    id: dict[str, Any]
    preprocessing: dict[str, Any]
    device: torch.device
    dtype: torch.dtype | None
    load: Callable[[], Encoder] | None = None
    kept: Kept | None = None

    @property
    def as_stored(self) -> bool:
        """Whether images are decoded as stored, without turning them upright (``encoder.decoding``)."""
        return self.preprocessing.get("decoding") == "stored"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle only how to load it; another process loads it once."""
        if self.load is None:
            raise TypeError("an encoder that was not loaded from files cannot be sent to another process")
        return _load_once, (fingerprint(self.id), self.load)

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        """Autocast context of this encoder's precision."""
        if self.dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    @property
    def pure(self) -> torch.dtype | None:
        """What the model's own weights were converted to; None for a precision that leaves them alone."""
        return PURE.get(str(self.id.get("precision")))

    def training(self) -> contextlib.AbstractContextManager[object]:
        """Autocast context of a training step, whose trained weights are float32 whatever the others are."""
        dtype = self.dtype or self.pure
        return torch.autocast(self.device.type, dtype=dtype or torch.float32, enabled=dtype is not None)

    @cached_property
    def derived(self) -> dict[str, nn.Module]:
        """Models made from this one, each once."""
        return {}

    def images_at_once(self, batch_size: int) -> int:
        """Images per forward pass on this device."""
        if self.device.type == "cpu":
            return min(batch_size, CPU_IMAGES)
        return batch_size

    @torch.inference_mode()
    def encode_texts(self, texts: Sequence[str], *, batch_size: int = 256) -> Tensor:
        """Encode at the full context length: P texts -> (P, D) float32, L2-normalised."""
        parts = []
        for start in range(0, len(texts), batch_size):
            batch = list(texts[start : start + batch_size])
            with self.autocast():
                tokens = self.tokenizer(batch).to(self.device)
                features = self.model.encode_text(tokens)  # type: ignore[operator]
                parts.append(F.normalize(features.float(), dim=-1))
        if not parts:
            return torch.empty(0, 0, device=self.device)
        return torch.cat(parts)


def choose_device(name: str | None = None) -> torch.device:
    """The device `name` (cuda, cuda:1, cpu, auto), else ``$WSOUP_DEVICE``, else CUDA if there is one, else CPU."""
    name = name or os.environ.get("WSOUP_DEVICE") or "auto"
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        # A value must come back: making a tensor alone succeeds on the meta device, and late errors of CUDA show here.
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        reason = one_line(str(error).splitlines()[0], limit=300)
        raise ModelError(f"device {name!r} cannot be used ({reason}); try --device auto, cpu or cuda") from None
    return check_device(device)


def check_device(device: torch.device) -> torch.device:
    """Return the device; ModelError for Apple's, which has no float64."""
    if device.type == "mps":
        raise ModelError(
            "device 'mps' has no float64, in which statistics are summed; use the CPU (--device cpu, or model.cpu())"
        )
    return device


def load_encoder(params: EncoderParams, *, device: torch.device | None = None) -> Encoder:
    """Load the model of params section ``encoder``.

    Raises:
        MissingError: a local config or weights file does not exist.
        ModelError: open_clip knows no such model or tag, the weights do not fit the config, or a weight is not finite.
    """
    config = check_name(params)
    if not params.pretrained and not params.comes_with_weights:
        raise ModelError(
            "encoder.pretrained is null, which would mean random weights: name a tag "
            "(open_clip.list_pretrained()) or a weights file"
        )
    local = params.weights_file
    if local and not local.is_file():
        raise MissingError(f"encoder.pretrained: weights file {local} does not exist")
    if local and config is not None and params.config is not None:
        check_weights(config, weights=local)
    if params.precision == "reference":
        torch.set_float32_matmul_precision("highest")
        # For convolutions TF32 is the default.
        torch.backends.cudnn.allow_tf32 = False
    device = device or choose_device()
    model, preprocess = build(params, device=device)
    tokenizer = tokenizer_of(params.model)
    _check_weights_finite(model, origin=str(params.pretrained or params.model))
    model.eval().requires_grad_(False)
    preprocessing = preprocessing_of(model)
    if params.decoding == "stored":
        preprocessing = preprocessing | {"decoding": "stored"}
    identity = encoder_id(
        model,
        tokenizer=tokenizer,
        model_name=params.model,
        # The folder is left out, so that a project that is moved keeps its results; the digest says which weights.
        pretrained=local.name if local else params.pretrained,
        precision=params.precision,
    )
    if params.precision in PURE:
        make_pure(model, precision=params.precision, device=device)
        _check_weights_finite(model, origin=f"{params.pretrained or params.model} in {params.precision}")
    return Encoder(
        model=model,
        tokenizer=tokenizer,
        preprocess=preprocess,
        id=identity,
        preprocessing=preprocessing,
        device=device,
        dtype=AUTOCAST.get(params.precision),
        load=partial(load_encoder, params),
    )


LOADED = 32
"""Encoders that a worker keeps: the models of many methods would fill its memory."""
_encoders: dict[str, Encoder] = {}


def _load_once(identity: str, load: Callable[[], Encoder]) -> Encoder:
    """The encoder of a fingerprint, of the last `LOADED`; ModelError if this node has a different one."""
    encoder = _encoders.pop(identity, None)
    if encoder is None:
        encoder = load()
        if fingerprint(encoder.id) != identity:
            raise ModelError(
                f"encoder {encoder.id['model']} / {encoder.id['pretrained']} differs here from the one where the "
                "work was handed out (other weights, config or version of open_clip); make them equal on all nodes"
            )
    _encoders[identity] = encoder
    while len(_encoders) > LOADED:
        del _encoders[next(iter(_encoders))]
    return encoder


def _check_weights_finite(model: nn.Module, *, origin: str) -> None:
    """Raise ModelError for the first weight that has NaN or infinity, which would make every feature NaN."""
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ModelError(
                f"encoder.pretrained: {origin}: tensor {name!r} holds NaN or infinity; download the file again, or "
                "choose other weights"
            )


def preprocessing_of(model: object) -> dict[str, Any]:
    """The settings of a model's `preprocess` as JSON values, from open_clip or the model's own `preprocessing`."""
    settings = getattr(model, "preprocessing", None)
    if isinstance(settings, dict):
        return settings
    visual = getattr(model, "visual", None)
    config = getattr(visual, "preprocess_cfg", None)
    if not config:
        return {}
    size = config.get("size")
    if isinstance(size, tuple):
        size = list(size)
    return {
        "size": size,
        "mean": list(config["mean"]),
        "std": list(config["std"]),
        "interpolation": config.get("interpolation"),
        "resize_mode": config.get("resize_mode"),
    }
