"""An open_clip model's JSON config, validated before anything is built from it. Needs neither torch nor open_clip.

A config may come from anywhere: ``layers: 1000000000`` would build for ever, and a tokenizer's ``trust_remote_code``
would run the code next to it. So that key is refused wherever it stands, and sizes must be plausible.
"""

from __future__ import annotations

import json
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from wsoup.base.errors import MissingError, ModelError, ParamsError, one_line
from wsoup.params.inputs import EncoderParams
from wsoup.params.section import parse

MOST_PARAMETERS = 100_000_000_000
"""More than any image-text model has; building a larger one would end when memory does."""
MOST_UNPACKED = 8
"""Bytes in memory for each byte of a file of weights, which PyTorch writes without compression."""
Blocks = Annotated[int, Field(ge=1, le=1_000, strict=True)]
Pixels = Annotated[int, Field(ge=1, le=10_000, strict=True)]
Size = Annotated[int, Field(ge=1, le=100_000, strict=True)]
Vocabulary = Annotated[int, Field(ge=1, le=10_000_000, strict=True)]
Ratio = Annotated[float, Field(gt=0, le=100, strict=True)]


class _Tower(BaseModel):
    """Part of a config: what decides its size. Other keys are open_clip's to accept or refuse."""

    model_config = ConfigDict(protected_namespaces=())


class Vision(_Tower):
    """The image tower."""

    layers: Blocks | Annotated[list[Blocks], Field(min_length=1, max_length=4)] = 12
    width: Size = 768
    head_width: Size = 64
    mlp_ratio: Ratio = 4.0
    patch_size: Pixels | None = 16
    image_size: Pixels | Annotated[list[Pixels], Field(min_length=1, max_length=2)] = 224
    attn_pooler_queries: Size = 256
    timm_model_name: str | None = None


class Text(_Tower):
    """The text tower, or CoCa's decoder."""

    layers: Blocks = 12
    width: Size = 512
    heads: Size = 8
    mlp_ratio: Ratio = 4.0
    context_length: Size = 77
    vocab_size: Vocabulary = 49408
    hf_model_name: str | None = None


class Config(_Tower):
    """A model."""

    embed_dim: Size
    vision_cfg: Vision
    text_cfg: Text
    multimodal_cfg: Text | None = None

    @property
    def blocks(self) -> dict[str, int]:
        """Transformer blocks of each tower by its name in the config, for the towers that have them."""
        blocks = {}
        # A ResNet has a list of layers; towers of timm and Hugging Face have configs of their own.
        if not self.vision_cfg.timm_model_name and isinstance(self.vision_cfg.layers, int):
            blocks["vision_cfg"] = self.vision_cfg.layers
        if not self.text_cfg.hf_model_name:
            blocks["text_cfg"] = self.text_cfg.layers
        return blocks

    @property
    def parameters(self) -> int:
        """Lower bound of the number of parameters; towers of other libraries and ResNets count as 0."""
        vision = self.vision_cfg
        text = self.text_cfg
        total = 0
        if "vision_cfg" in self.blocks:
            side = vision.image_size
            if not isinstance(side, int):
                side = min(side)
            patch = vision.patch_size or 1
            n_patches = (side // patch) ** 2
            total += vision.width * (3 * patch**2 + n_patches)
            total += self.blocks["vision_cfg"] * _block(vision)
        if "text_cfg" in self.blocks:
            total += text.width * (text.vocab_size + text.context_length)
            total += self.blocks["text_cfg"] * _block(text)
        return total


def _block(tower: Vision | Text) -> int:
    """Weights of attention's four products and of the two of the perceptron."""
    n_products = 4 + 2 * tower.mlp_ratio
    return int(tower.width**2 * n_products)


def known_config(params: EncoderParams) -> Config | None:
    """The validated config of section `encoder`: local, of a local-dir: model, or open_clip's own; None if not a file.

    Raises:
        MissingError, ModelError: as `read_config`.
    """
    if params.config is not None:
        return read_config(Path(params.config), key="encoder.config")
    if params.model.startswith("local-dir:"):
        file = Path(params.model.removeprefix("local-dir:")) / "open_clip_config.json"
        return read_config(file, key="encoder.model", of_hub=True)
    package = find_spec("open_clip")
    if package is None:
        return None
    name = params.model.replace("/", "-")
    for folder in package.submodule_search_locations or ():
        file = Path(folder) / "model_configs" / f"{name}.json"
        if file.is_file():
            return read_config(file, key="encoder.model")
    return None


def read_config(path: Path, *, key: str, of_hub: bool = False) -> Config:
    """Read and validate a JSON config.

    Args:
        path: the file.
        key: of params.yaml that names it, for error messages.
        of_hub: whether it is from a hub's repository, with the model's config under `model_cfg`.

    Raises:
        MissingError: no such file.
        ModelError: not JSON, not a model config, an unknown key, or an implausible number.
    """
    if not path.is_file():
        raise MissingError(f"{key}: {path} does not exist, or is not a file; correct it in params.yaml")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise ModelError(f"{key}: {path} is not JSON in UTF-8 ({one_line(error, limit=200)})") from None
    if of_hub and isinstance(config, dict):
        config = config.get("model_cfg")
    if not isinstance(config, dict):
        what = f"it is {type(config).__name__}, expected an object with embed_dim, vision_cfg and text_cfg"
        raise ModelError(f"{key}: {path} is not an open_clip model config: {what}")
    # It is looked for in the parsed value, written again: in the file it may be escaped in many ways.
    if "trust_remote_code" in json.dumps(config):
        raise ModelError(
            f"{key}: {path} asks for trust_remote_code, which runs code from the repository; wsoup never does"
        )
    try:
        parsed = parse(Config, config, origin=f"{key}: {path} is not an open_clip model config")
    except ParamsError as error:
        raise ModelError(str(error)) from None
    if parsed.parameters > MOST_PARAMETERS:
        raise ModelError(
            f"{key}: {path} asks for {parsed.parameters:,} parameters or more, {MOST_PARAMETERS:,} are the most; "
            "correct its layers and widths"
        )
    return parsed


def check_weights(config: Config, *, weights: Path) -> None:
    """Raise ModelError if a file of weights is too small, at one byte per parameter, or unpacks to too much."""
    size = weights.stat().st_size
    if config.parameters > size:
        raise ModelError(
            f"encoder.pretrained: {weights} has {size:,} bytes, and encoder.config asks for {config.parameters:,} "
            "parameters or more; they do not belong together, or the file is truncated: download it again"
        )
    unpacked = _unpacked_size(weights)
    if unpacked > MOST_UNPACKED * size:
        raise ModelError(
            f"encoder.pretrained: {weights} has {size:,} bytes and unpacks to {unpacked:,}; PyTorch does not compress "
            "weights: download it again, or save its state dict as .safetensors"
        )


def _unpacked_size(weights: Path) -> int:
    """Bytes of the members of PyTorch's zip file; 0 for any other file."""
    try:
        with zipfile.ZipFile(weights) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, NotImplementedError):
        return 0  # not a zip file, or damaged, which is said where it is loaded
