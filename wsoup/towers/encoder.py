"""The open_clip model: loading, identity, preprocessing, and plain encoding of images and texts.

The only importer of open_clip. Any model name and ``pretrained`` tag of open_clip works, and so does a local JSON
config with local weights. Exact fast text encoding builds on this in `wsoup.texts`; `Encoder.encode_texts` here is the
plain way (`model.encode_text` at the full context), which everything else is held against.
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

from wsoup.core.disk.files import shown
from wsoup.core.disk.store import fingerprint
from wsoup.core.errors import MissingError, ModelError, PackageError, needing, one_line
from wsoup.core.params.encoder import EncoderParams
from wsoup.towers.config import Config, check_weights, known_config, read_config
from wsoup.towers.identity import encoder_id
from wsoup.towers.startup import deferring

with deferring():
    import open_clip

    from wsoup.towers.fast import with_fast_images

QUICK_GELU = "-quickgelu"
"""What names of open_clip's models end with that are built with QuickGELU."""
CPU_IMAGES = 32
"""Images in one forward pass on a CPU, at most: larger batches take more memory, and more time an image."""
TEXTS_KEPT = 1 << 15
"""Texts whose tokens are kept: a stage asks for those of a text to check it, to encode it and to say what it costs."""
AUTOCAST = {"fp32": None, "reference": None, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Encoder:
    """A loaded image-text model.

    Attributes:
        model: the open_clip model, in eval mode, float32 weights.
        tokenizer: texts -> (B, context) int64.
        preprocess: RGB image -> (3, H, W) float32, resize, centre crop and normalisation as the model wants them.
        augment: the same with RandomResizedCrop and flip, for training.
        id: model, pretrained, config and weights (`wsoup.towers.identity`), quick_gelu, precision; JSON values.
        preprocessing: size, mean, std, interpolation, resize_mode, where it is not upright decoding; JSON values.
        device: where the model is.
        dtype: autocast dtype, or None for float32 throughout.
        load: makes the same encoder in another process; None where there is no such way.
    """

    model: nn.Module
    tokenizer: Callable[[Sequence[str]], Tensor]
    preprocess: Callable[[Image.Image], Tensor]
    augment: Callable[[Image.Image], Tensor]
    id: dict[str, Any]
    preprocessing: dict[str, Any]
    device: torch.device
    dtype: torch.dtype | None
    load: Callable[[], Encoder] | None = None

    @property
    def as_stored(self) -> bool:
        """Whether images are decoded as they are stored, see ``encoder.decoding``."""
        return self.preprocessing.get("decoding") == "stored"

    def __reduce__(self) -> tuple[Any, ...]:
        """To another process an encoder travels as what it is loaded from, and is loaded there once."""
        if self.load is None:
            raise TypeError("an encoder that was not loaded from files cannot be sent to another process")
        return _loaded, (fingerprint(self.id), self.load)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """The autocast context of this encoder's precision."""
        if self.dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    @cached_property
    def _images(self) -> nn.Module:
        """The model with its image tower laid out for speed."""
        return with_fast_images(self.model, dtype=self.dtype)

    def images_at_once(self, batch_size: int) -> int:
        """How many of a batch go through the image tower at once on this device."""
        return min(batch_size, CPU_IMAGES) if self.device.type == "cpu" else batch_size

    @torch.inference_mode()
    def encode_images(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, D) float32, L2-normalised, on this encoder's device.

        Where the device's memory does not hold the batch, its halves are encoded one after the other.
        """
        try:
            with self.autocast():
                features = self._images.encode_image(pixels.to(self.device, non_blocking=True))  # type: ignore[operator]
            return F.normalize(features.float(), dim=-1)
        except torch.OutOfMemoryError:
            if len(pixels) == 1:
                raise
        # Only here is the memory of the pass that failed free: the error holds on to it.
        half = len(pixels) // 2
        return torch.cat([self.encode_images(pixels[:half]), self.encode_images(pixels[half:])])

    @torch.inference_mode()
    def encode_texts(self, texts: Sequence[str], *, batch_size: int = 256) -> Tensor:
        """The plain way, at the full context length: P texts -> (P, D) float32, L2-normalised."""
        parts = []
        for start in range(0, len(texts), batch_size):
            with self.autocast():
                tokens = self.tokenizer(list(texts[start : start + batch_size])).to(self.device)
                parts.append(F.normalize(self.model.encode_text(tokens).float(), dim=-1))  # type: ignore[operator]
        return torch.cat(parts) if parts else torch.empty(0, 0, device=self.device)


def check_finite(features: Tensor, *, paths: Sequence[str]) -> None:
    """Raise ModelError for the first image whose features (B, D) hold NaN or infinity; `paths` are the B images."""
    good = features.isfinite().all(dim=1).tolist()
    if not all(good):
        raise ModelError(
            f"{shown(paths[good.index(False)])}: its features are not finite (NaN or infinity); check "
            "encoder.image_mean and image_std, or choose precision: fp32"
        )


def choose_device(name: str | None = None) -> torch.device:
    """``cuda``, ``cuda:1``, ``cpu``..., from `name`, else ``$WSOUP_DEVICE``, else CUDA where there is one, else CPU."""
    name = name or os.environ.get("WSOUP_DEVICE") or "auto"
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # not so on the device meta, which has no values
    except (RuntimeError, AssertionError) as error:
        reason = one_line(str(error).splitlines()[0], limit=300)
        raise ModelError(f"device {name!r} cannot be used ({reason}); try --device auto, cpu or cuda") from None
    return check_device(device)


def check_device(device: torch.device) -> torch.device:
    """The device itself; ModelError for Apple's, which has no float64."""
    if device.type == "mps":
        raise ModelError(
            "device 'mps' has no float64, in which statistics are summed; use the CPU (--device cpu, or model.cpu())"
        )
    return device


def load_encoder(params: EncoderParams, *, device: torch.device | None = None) -> Encoder:
    """Load the model of params section ``encoder``.

    Raises:
        MissingError: a local config or weights file is not there.
        ModelError: open_clip knows no such model or tag, the weights do not fit the config, or one of them is not
            finite.
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
        torch.backends.cudnn.allow_tf32 = False  # of convolutions, which torch else lets have it
    device = device or choose_device()
    model, augment, preprocess = build(params, device=device)
    tokenizer = tokenizer_of(params.model)
    _check_finite(model, origin=str(params.pretrained or params.model))
    model.eval().requires_grad_(False)
    identity = encoder_id(
        model,
        tokenizer=tokenizer,
        model_name=params.model,
        pretrained=local.name if local else params.pretrained,
        precision=params.precision,
    )
    return Encoder(
        model=model,
        tokenizer=tokenizer,
        preprocess=preprocess,
        augment=augment,
        id=identity,
        preprocessing=preprocessing_of(model) | ({"decoding": "stored"} if params.decoding == "stored" else {}),
        device=device,
        dtype=AUTOCAST[params.precision],
        load=partial(load_encoder, params),
    )


def build(params: EncoderParams, *, device: torch.device) -> tuple[nn.Module, Any, Any]:
    """open_clip's model with its weights and its two transforms: (model, augment, preprocess).

    Raises:
        ModelError: open_clip cannot load it, or its activation is not the one that the weights were trained with.
    """
    force = forced_quick_gelu(params)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="QuickGELU mismatch")  # `forced_quick_gelu` has decided
            return open_clip.create_model_and_transforms(
                params.model,
                pretrained=params.pretrained or None,
                force_quick_gelu=force,
                image_mean=params.image_mean,
                image_std=params.image_std,
                image_interpolation=params.interpolation,
                device=device,
                require_pretrained=params.pretrained
                is not None,  # a repository without weights would be a random model
            )
    except pickle.UnpicklingError:
        raise ModelError(
            f"encoder.pretrained: {params.pretrained} is damaged, or holds more than weights (code is never run); "
            "download it again, or save its state dict as .safetensors"
        ) from None
    except Exception as error:  # config and weights come from anywhere, and may lead open_clip into any
        raise _not_loaded(params, error) from None


def _not_loaded(params: EncoderParams, error: Exception) -> ModelError:
    reason = one_line(error, limit=250) or type(error).__name__
    return ModelError(f"encoder {params.model} / {params.pretrained} cannot be loaded: {reason}")


def forced_quick_gelu(params: EncoderParams) -> bool:
    """Whether QuickGELU has to be asked for, where the model's own configuration does not ask for it.

    Weights work with the activation that they were trained with and no other, and open_clip (3.x) builds what the
    model's name says: GELU for ``ViT-B-16``, whatever the tag. So a tag's own configuration decides (openai, metaclip,
    dfn, ... are QuickGELU); of local weights and of a hub's model the configuration or ``encoder.quick_gelu``.

    Raises:
        ModelError: a ``-quickgelu`` name with weights that were trained with GELU, or a key that says otherwise than
            the tag or the name.
    """
    config = open_clip.get_model_config(params.model) or {}
    asked = bool(config.get("quick_gelu"))
    named_quick = params.model.endswith(QUICK_GELU)
    tag = open_clip.get_pretrained_cfg(params.model, str(params.pretrained))
    plain = open_clip.get_pretrained_cfg(params.model.removesuffix(QUICK_GELU), str(params.pretrained))
    if named_quick and plain and not plain.get("quick_gelu"):
        raise ModelError(
            f"encoder.pretrained {params.pretrained} was trained with GELU, not with the QuickGELU of encoder.model "
            f"{params.model}; set encoder.model: {params.model.removesuffix(QUICK_GELU)}"
        )
    # A configuration may ask for QuickGELU without saying so in its name (roberta-ViT-B-32): it is that of its weights.
    wanted = asked or bool(tag.get("quick_gelu")) if tag else params.quick_gelu
    if tag and params.quick_gelu not in (None, wanted):
        raise ModelError(
            f"encoder.quick_gelu is {str(params.quick_gelu).lower()}, but {params.model} / {params.pretrained} was "
            f"trained with {'QuickGELU' if wanted else 'GELU'}; leave the key out, the tag says it"
        )
    if asked and wanted is False:
        raise ModelError(
            f"encoder.quick_gelu is false, but the configuration of {params.model} asks for QuickGELU; "
            "leave the key out or choose another model"
        )
    return bool(wanted) and not asked


_here: dict[str, Encoder] = {}


def _loaded(identity: str, load: Callable[[], Encoder]) -> Encoder:
    """The encoder of that fingerprint, loaded once in this process; ModelError where another one is found here."""
    if identity not in _here:
        encoder = load()
        if fingerprint(encoder.id) != identity:
            raise ModelError(
                f"encoder {encoder.id['model']} / {encoder.id['pretrained']} differs here from the one where the "
                "work was handed out (other weights, config or version of open_clip); make them equal on all nodes"
            )
        _here[identity] = encoder
    return _here[identity]


def random_model(name: str, *, seed: int) -> tuple[nn.Module, Callable[[Sequence[str]], Tensor]]:
    """An open_clip model with seeded random weights and its tokenizer: for exactness and speed, not for behaviour."""
    with _quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = open_clip.create_model(name, load_weights=False)
    return model.eval().requires_grad_(False), tokenizer_of(name)


def known_tags(model: str) -> list[str]:
    """Tags of pretrained weights that open_clip has for a model."""
    return list(open_clip.list_pretrained_tags_by_model(model))


def untrained_model(params: EncoderParams) -> nn.Module:
    """The model with random weights: what can be known of it before any weights are loaded.

    Raises:
        MissingError, ModelError: there is no such config or model, or it cannot be built.
    """
    _check_name(params)
    try:
        return random_model(params.model, seed=0)[0]
    except (RuntimeError, ValueError, OSError, KeyError, AssertionError, TypeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"encoder.model {params.model} cannot be built: {reason}") from None


def _check_name(params: EncoderParams) -> Config | None:
    """Make a local config known, which is returned, and raise where open_clip knows no such model."""
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
    """The tokenizer of a model; one that is not there, or needs a package that is not, in one line."""
    try:
        with needing():
            tokenizer = open_clip.get_tokenizer(model)
    except PackageError as error:
        raise ModelError(f"the tokenizer of {model} cannot be loaded: {error}") from None
    except Exception as error:  # a config may name one that is not there, or is none
        reason = one_line(error, limit=250) or type(error).__name__
        raise ModelError(f"the tokenizer of {model} cannot be loaded: {reason}") from None
    if isinstance(tokenizer, open_clip.SimpleTokenizer):  # in Python, at a tenth of a millisecond a text
        tokenizer.encode = _Kept(tokenizer)
    return tokenizer


class _Kept:
    """A tokenizer's `encode` that knows what it has made; a copy in another process begins anew."""

    def __init__(self, tokenizer: open_clip.SimpleTokenizer) -> None:
        self.tokenizer = tokenizer
        self.kept = lru_cache(maxsize=TEXTS_KEPT)(partial(type(tokenizer).encode, tokenizer))

    def __call__(self, text: str) -> list[int]:
        return self.kept(text)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Kept, (self.tokenizer,)


def weightless_encoder(params: EncoderParams) -> Encoder:
    """The model of params section ``encoder`` on the meta device, without weights: to count, not to compute.

    Raises:
        MissingError: a local config is not there.
        ModelError: open_clip cannot build the model from its configuration.
    """
    _check_name(params)
    try:
        with _quiet():
            model, preprocess = _on_meta(params.model)
            tokenizer = tokenizer_of(params.model)
    except (RuntimeError, ValueError, OSError, KeyError, AssertionError, ImportError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"encoder {params.model} cannot be built from its configuration: {reason}") from None
    return Encoder(
        model=model.eval().requires_grad_(False),
        tokenizer=tokenizer,
        preprocess=preprocess,
        augment=preprocess,
        id={"model": params.model, "pretrained": None, "precision": params.precision},
        preprocessing=preprocessing_of(model) | ({"decoding": "stored"} if params.decoding == "stored" else {}),
        device=torch.device("meta"),
        dtype=AUTOCAST[params.precision],
    )


def _on_meta(name: str) -> tuple[nn.Module, Any]:
    """A model without weights on the meta device, and its preprocessing."""
    try:
        with torch.device("meta"):
            model, _, preprocess = open_clip.create_model_and_transforms(name, load_weights=False, device="meta")
    except (NotImplementedError, RuntimeError):  # an image tower that looks at values while it is built
        model, _, preprocess = open_clip.create_model_and_transforms(name, load_weights=False)
    return model.to("meta"), preprocess


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Within, open_clip does not warn that weights are random, which is what is wanted."""
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def imagenet_class_names() -> list[str]:
    """ImageNet's 1,000 class names in label order, from open_clip's own metadata."""
    return list(open_clip.IMAGENET_CLASSNAMES)


def ensemble_templates() -> list[Callable[[str], str]]:
    """The 80 prompt-ensemble templates of OpenAI, from open_clip's own metadata: class name -> prompt."""
    return list(open_clip.OPENAI_IMAGENET_TEMPLATES)


def _check_hub(repository: str) -> None:
    """Raise ModelError where the config of a hub's repository will not do."""
    try:
        file = open_clip.pretrained.download_pretrained_from_hf(repository, filename="open_clip_config.json")
    except Exception:  # no network, no such repository, one of transformers alone: open_clip says which
        return
    read_config(Path(file), key="encoder.model", of_hub=True)


def _register(params: EncoderParams) -> None:
    """Make a local JSON config known to open_clip under the file's stem, which must be the model's name."""
    path = Path(str(params.config))
    if path.stem != params.model:
        raise ModelError(
            f"encoder.model must be the config's file name without .json: {path.stem!r}, not {params.model!r}"
        )
    open_clip.add_model_config(path)


def _check_finite(model: nn.Module, *, origin: str) -> None:
    """Raise ModelError for the first tensor of the weights that holds NaN or infinity: every feature would be NaN."""
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ModelError(
                f"encoder.pretrained: {origin}: tensor {name!r} holds NaN or infinity; download the file again, or "
                "choose other weights"
            )


def preprocessing_of(model: Any) -> dict[str, Any]:
    """What a model says of its `preprocess`, as JSON values: open_clip's do, others may in `preprocessing`."""
    if isinstance(said := getattr(model, "preprocessing", None), dict):
        return said
    about = getattr(getattr(model, "visual", None), "preprocess_cfg", None)
    if not about:
        return {}
    size = about.get("size")
    return {
        "size": list(size) if isinstance(size, tuple) else size,
        "mean": list(about["mean"]),
        "std": list(about["std"]),
        "interpolation": about.get("interpolation"),
        "resize_mode": about.get("resize_mode"),
    }
