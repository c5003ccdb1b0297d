"""open_clip models: loading, tokenizer, preprocessing, and reference encoding of images and texts.

Any model name and ``pretrained`` tag of open_clip works, and so does a local JSON config with local weights. Only
`wsoup.towers` loads models. The fast text encoder in `wsoup.texts` is tested against `Encoder.encode_texts` here, which
is `model.encode_text` at the full context length.
"""

from __future__ import annotations

import contextlib
import difflib
import logging
import os
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.base.errors import MissingError, ModelError, needing, one_line
from wsoup.disk.store import fingerprint
from wsoup.params.inputs import EncoderParams
from wsoup.towers.config import Config, check_weights, known_config, read_config
from wsoup.towers.identity import encoder_id
from wsoup.towers.startup import deferring

with deferring():
    import open_clip

QUICK_GELU = "-quickgelu"
"""Suffix of the names of open_clip's models that use QuickGELU."""
CPU_IMAGES = 32
"""Largest batch of images on a CPU: larger ones take more memory and more time per image."""
TEXTS_KEPT = 1 << 15
"""Texts whose tokens are cached: a stage tokenises a text to check it, to encode it and to count its cost."""
AUTOCAST = {"fp32": None, "reference": None, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Encoder:
    """A loaded image-text model.

    Attributes:
        model: the open_clip model in eval mode, float32 weights.
        tokenizer: texts -> (B, context) int64.
        preprocess: RGB image -> (3, H, W) float32: resize, centre crop and normalise as the model requires.
        id: model, pretrained, config and weights (`wsoup.towers.identity`), quick_gelu, precision; JSON values.
        preprocessing: size, mean, std, interpolation, resize_mode, and decoding if not upright; JSON values.
        device: of the model.
        dtype: autocast dtype, or None for float32.
        load: loads the same encoder in another process; None if it was not loaded from files.
    """

    model: nn.Module
    tokenizer: Callable[[Sequence[str]], Tensor]
    preprocess: Callable[[Image.Image], Tensor]
    id: dict[str, Any]
    preprocessing: dict[str, Any]
    device: torch.device
    dtype: torch.dtype | None
    load: Callable[[], Encoder] | None = None

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

    @cached_property
    def derived(self) -> dict[str, nn.Module]:
        """Models made from this one, each once."""
        return {}

    def images_at_once(self, batch_size: int) -> int:
        """Images per forward pass on this device."""
        return min(batch_size, CPU_IMAGES) if self.device.type == "cpu" else batch_size

    @torch.inference_mode()
    def encode_texts(self, texts: Sequence[str], *, batch_size: int = 256) -> Tensor:
        """Encode at the full context length: P texts -> (P, D) float32, L2-normalised."""
        parts = []
        for start in range(0, len(texts), batch_size):
            with self.autocast():
                tokens = self.tokenizer(list(texts[start : start + batch_size])).to(self.device)
                parts.append(F.normalize(self.model.encode_text(tokens).float(), dim=-1))  # type: ignore[operator]
        return torch.cat(parts) if parts else torch.empty(0, 0, device=self.device)


def choose_device(name: str | None = None) -> torch.device:
    """The device `name` (cuda, cuda:1, cpu, auto), else ``$WSOUP_DEVICE``, else CUDA if there is one, else CPU."""
    name = name or os.environ.get("WSOUP_DEVICE") or "auto"
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # the meta device has no values
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
    config = _check_name(params)
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
        torch.backends.cudnn.allow_tf32 = False  # the default for convolutions is True
    device = device or choose_device()
    model, preprocess = build(params, device=device)
    tokenizer = tokenizer_of(params.model)
    _check_weights_finite(model, origin=str(params.pretrained or params.model))
    identity = encoder_id(
        model.eval().requires_grad_(False),
        tokenizer=tokenizer,
        model_name=params.model,
        pretrained=local.name if local else params.pretrained,
        precision=params.precision,
    )
    return Encoder(
        model=model,
        tokenizer=tokenizer,
        preprocess=preprocess,
        id=identity,
        preprocessing=preprocessing_of(model) | ({"decoding": "stored"} if params.decoding == "stored" else {}),
        device=device,
        dtype=AUTOCAST[params.precision],
        load=partial(load_encoder, params),
    )


def build(params: EncoderParams, *, device: torch.device) -> tuple[nn.Module, Callable[[Image.Image], Tensor]]:
    """open_clip's model with its weights, and its preprocessing.

    Raises:
        ModelError: open_clip cannot load it, or its activation is not the one that the weights were trained with.
    """
    force = forced_quick_gelu(params)
    with _explained(f"encoder {params.model} / {params.pretrained} cannot be loaded"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="QuickGELU mismatch")  # `forced_quick_gelu` has decided
        try:
            model, _, preprocess = open_clip.create_model_and_transforms(
                params.model,
                pretrained=params.pretrained or None,
                force_quick_gelu=force,
                image_mean=params.image_mean,
                image_std=params.image_std,
                image_interpolation=params.interpolation,
                device=device,
                require_pretrained=params.pretrained is not None,  # a hub's repository may have no weights
            )
        except pickle.UnpicklingError:
            raise ModelError(
                f"encoder.pretrained: {params.pretrained} is damaged, or holds more than weights (code is never run); "
                "download it again, or save its state dict as .safetensors"
            ) from None
    return model, preprocess


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn any error inside into a ModelError that says what failed: configs and weights may lead anywhere."""
    try:
        with needing():
            yield
    except (MissingError, ModelError):
        raise
    except Exception as error:
        raise ModelError(f"{what}: {one_line(error, limit=250) or type(error).__name__}") from None


def forced_quick_gelu(params: EncoderParams) -> bool:
    """Whether to ask open_clip for QuickGELU because the model's configuration does not.

    Weights only work with the activation that they were trained with, but open_clip (3.x) builds what the model's name
    says: GELU for ``ViT-B-16``, whatever the tag. So a tag's own configuration decides (openai, metaclip, dfn, ... use
    QuickGELU); for local weights and a hub's model, their configuration or ``encoder.quick_gelu``.

    Raises:
        ModelError: a ``-quickgelu`` name with weights trained with GELU, or a key that contradicts the tag or the name.
    """
    config = open_clip.get_model_config(params.model) or {}
    in_config = bool(config.get("quick_gelu"))
    tag = open_clip.get_pretrained_cfg(params.model, str(params.pretrained))
    plain_name = params.model.removesuffix(QUICK_GELU)
    plain = open_clip.get_pretrained_cfg(plain_name, str(params.pretrained))
    if plain_name != params.model and plain and not plain.get("quick_gelu"):
        raise ModelError(
            f"encoder.pretrained {params.pretrained} was trained with GELU, not with the QuickGELU of encoder.model "
            f"{params.model}; set encoder.model: {plain_name}"
        )
    # A configuration may ask for QuickGELU without saying so in its name (roberta-ViT-B-32), as its weights need it.
    wanted = in_config or bool(tag.get("quick_gelu")) if tag else params.quick_gelu
    if tag and params.quick_gelu not in (None, wanted):
        raise ModelError(
            f"encoder.quick_gelu is {str(params.quick_gelu).lower()}, but {params.model} / {params.pretrained} was "
            f"trained with {'QuickGELU' if wanted else 'GELU'}; leave the key out, the tag decides"
        )
    if in_config and wanted is False:
        raise ModelError(
            f"encoder.quick_gelu is false, but the configuration of {params.model} asks for QuickGELU; "
            "leave the key out or choose another model"
        )
    return bool(wanted) and not in_config


_encoders: dict[str, Encoder] = {}


def _load_once(identity: str, load: Callable[[], Encoder]) -> Encoder:
    """The encoder of a fingerprint, loaded once per process; ModelError if this node has a different one."""
    if identity not in _encoders:
        encoder = load()
        if fingerprint(encoder.id) != identity:
            raise ModelError(
                f"encoder {encoder.id['model']} / {encoder.id['pretrained']} differs here from the one where the "
                "work was handed out (other weights, config or version of open_clip); make them equal on all nodes"
            )
        _encoders[identity] = encoder
    return _encoders[identity]


def random_model(name: str, *, seed: int) -> tuple[nn.Module, Callable[[Sequence[str]], Tensor]]:
    """An open_clip model with seeded random weights, and its tokenizer: to test exactness and speed."""
    with _quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = open_clip.create_model(name, load_weights=False)
    return model.eval().requires_grad_(False), tokenizer_of(name)


def known_tags(model: str) -> list[str]:
    """open_clip's tags of pretrained weights for a model."""
    return list(open_clip.list_pretrained_tags_by_model(model))


def untrained_model(params: EncoderParams) -> nn.Module:
    """The model with random weights, to inspect before any weights are loaded.

    Raises:
        MissingError, ModelError: no such config or model, or it cannot be built.
    """
    _check_name(params)
    with _explained(f"encoder.model {params.model} cannot be built"):
        return random_model(params.model, seed=0)[0]


def _check_name(params: EncoderParams) -> Config | None:
    """Register and return a local config; ModelError if open_clip knows no such model."""
    config = known_config(params)
    if params.config is not None:
        _register(params)
    if params.model.startswith("hf-hub:"):
        _check_hub(params.model.removeprefix("hf-hub:"))
    known = open_clip.list_models()
    if params.model not in known and not params.comes_with_weights:
        near = difflib.get_close_matches(params.model, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "see open_clip.list_models()"
        raise ModelError(f"encoder.model {params.model!r} is not an open_clip model; {hint}")
    return config


def tokenizer_of(model: str) -> Callable[[Sequence[str]], Tensor]:
    """The tokenizer of a model; ModelError if it cannot be loaded or needs a package that is not installed."""
    with _explained(f"the tokenizer of {model} cannot be loaded"):
        tokenizer = open_clip.get_tokenizer(model)
    if isinstance(tokenizer, open_clip.SimpleTokenizer):  # pure Python, a tenth of a millisecond per text
        tokenizer.encode = _CachedEncode(tokenizer)
    return tokenizer


class _CachedEncode:
    """A tokenizer's `encode` with a cache, which is not pickled."""

    def __init__(self, tokenizer: open_clip.SimpleTokenizer) -> None:
        self.tokenizer = tokenizer
        self.cached = lru_cache(maxsize=TEXTS_KEPT)(partial(type(tokenizer).encode, tokenizer))

    def __call__(self, text: str) -> list[int]:
        return self.cached(text)

    def __reduce__(self) -> tuple[object, ...]:
        return _CachedEncode, (self.tokenizer,)


def weightless_encoder(params: EncoderParams) -> Encoder:
    """The model of params section ``encoder`` on the meta device, without weights: to count, not to compute.

    Raises:
        MissingError: a local config does not exist.
        ModelError: open_clip cannot build the model from its configuration.
    """
    _check_name(params)
    with _explained(f"encoder {params.model} cannot be built from its configuration"), _quiet():
        model, preprocess = _on_meta(params.model)
        tokenizer = tokenizer_of(params.model)
    return Encoder(
        model=model.eval().requires_grad_(False),
        tokenizer=tokenizer,
        preprocess=preprocess,
        id={"model": params.model, "pretrained": None, "precision": params.precision},
        preprocessing=preprocessing_of(model) | ({"decoding": "stored"} if params.decoding == "stored" else {}),
        device=torch.device("meta"),
        dtype=AUTOCAST[params.precision],
    )


def _on_meta(name: str) -> tuple[nn.Module, Callable[[Image.Image], Tensor]]:
    """A model without weights on the meta device, and its preprocessing."""
    try:
        with torch.device("meta"):
            model, _, preprocess = open_clip.create_model_and_transforms(name, load_weights=False, device="meta")
    except (NotImplementedError, RuntimeError):  # an image tower that computes with values while it is built
        model, _, preprocess = open_clip.create_model_and_transforms(name, load_weights=False)
    return model.to("meta"), preprocess


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence open_clip's warning that weights are random."""
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def imagenet_class_names() -> list[str]:
    """ImageNet's 1,000 class names in label order, from open_clip's metadata."""
    return list(open_clip.IMAGENET_CLASSNAMES)


def ensemble_templates() -> list[Callable[[str], str]]:
    """OpenAI's 80 templates for prompt ensembles (class name -> prompt), from open_clip's metadata."""
    return list(open_clip.OPENAI_IMAGENET_TEMPLATES)


def _check_hub(repository: str) -> None:
    """Raise ModelError if the config of a hub's repository is not acceptable."""
    try:
        file = open_clip.pretrained.download_pretrained_from_hf(repository, filename="open_clip_config.json")
    except Exception:  # open_clip reports a missing network or repository
        return
    read_config(Path(file), key="encoder.model", of_hub=True)


def _register(params: EncoderParams) -> None:
    """Register a local JSON config with open_clip under the file's stem, which must be the model's name."""
    path = Path(str(params.config))
    if path.stem != params.model:
        raise ModelError(
            f"encoder.model must be the config's file name without .json: {path.stem!r}, not {params.model!r}"
        )
    open_clip.add_model_config(path)


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
    if isinstance(settings := getattr(model, "preprocessing", None), dict):
        return settings
    config = getattr(getattr(model, "visual", None), "preprocess_cfg", None)
    if not config:
        return {}
    size = config.get("size")
    return {
        "size": list(size) if isinstance(size, tuple) else size,
        "mean": list(config["mean"]),
        "std": list(config["std"]),
        "interpolation": config.get("interpolation"),
        "resize_mode": config.get("resize_mode"),
    }
