"""An open_clip model's JSON config, validated before anything is built from it. Needs neither torch nor open_clip.

A config may come from anywhere: ``layers: 1000000000`` would build for ever, and a tokenizer's ``trust_remote_code``
would run the code next to it. So unknown keys are refused, and sizes must be plausible.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from wsoup.base.errors import MissingError, ModelError, ParamsError, one_line
from wsoup.params.inputs import EncoderParams
from wsoup.params.section import parse

MOST_PARAMETERS = 100_000_000_000
Blocks = Annotated[int, Field(ge=1, le=1_000, strict=True)]
Pixels = Annotated[int, Field(ge=1, le=10_000, strict=True)]
Size = Annotated[int, Field(ge=1, le=100_000, strict=True)]
Vocabulary = Annotated[int, Field(ge=1, le=10_000_000, strict=True)]
Ratio = Annotated[float, Field(gt=0, le=100, strict=True)]
Plain = bool | int | float | str | None


class _Part(BaseModel):
    """Part of a config. Defaults are open_clip's (`CLIPVisionCfg`, `CLIPTextCfg`)."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False, protected_namespaces=())
    switches: ClassVar[str] = ""
    """Other keys, with plain values or dicts of them: ``norm_kwargs: {eps: 1e-6}``."""

    @model_validator(mode="after")
    def _no_unknown_key(self) -> Self:
        for key, value in (self.model_extra or {}).items():
            if key not in self.switches.split():
                raise ValueError(f"unknown key {key!r}")
            values = value.values() if isinstance(value, dict) else [value]
            if not all(isinstance(plain, Plain) for plain in values):
                raise ValueError(f"{key} is not a plain value")
        return self


class Vision(_Part):
    """The image tower."""

    switches = """
        act_kwargs attentional_pool attn_pooler_heads block_type final_ln_after_pool ls_init_value no_ln_pre norm_kwargs
        output_tokens patch_dropout pool_type pos_embed_type qk_norm scale_attn scale_attn_inner scale_fc scale_heads
        scaled_cosine_attn timm_drop timm_drop_path timm_model_pretrained timm_pool timm_proj timm_proj_bias
    """
    layers: Blocks | Annotated[list[Blocks], Field(min_length=1, max_length=4)] = 12
    width: Size = 768
    head_width: Size = 64
    mlp_ratio: Ratio = 4.0
    patch_size: Pixels | None = 16
    image_size: Pixels | Annotated[list[Pixels], Field(min_length=1, max_length=2)] = 224
    attn_pooler_queries: Size = 256
    timm_model_name: str | None = None

    @model_validator(mode="after")
    def _patches_unless_a_resnet(self) -> Vision:
        if self.patch_size is None and isinstance(self.layers, int):
            raise ValueError("patch_size is null; only a ResNet, whose layers are a list, has none")
        return self


class Tokenizer(_Part):
    """The allowed options of a tokenizer; transformers takes more, such as ``trust_remote_code``."""

    clean: str | None = None
    language: str | None = None
    strip_sep_token: bool | None = None


class Text(_Part):
    """The text tower, or CoCa's decoder."""

    switches = """
        act_kwargs attn_pooler_heads block_type dim_head embed_cls eos_id final_ln_after_pool hf_model_pretrained
        hf_pooler_type hf_proj_type hf_tokenizer_name ls_init_value n_queries no_causal_mask norm_kwargs output_tokens
        pad_id pool_type proj_bias proj_type qk_norm scale_attn scale_attn_inner scale_fc scale_heads
        scaled_cosine_attn tokenizer_mode
    """
    layers: Blocks = 12
    width: Size = 512
    heads: Size = 8
    mlp_ratio: Ratio = 4.0
    context_length: Size = 77
    vocab_size: Vocabulary = 49408
    hf_model_name: str | None = None
    tokenizer_kwargs: Tokenizer = Tokenizer()


class Config(_Part):
    """A model."""

    switches = "custom_text init_logit_bias init_logit_scale nonscalar_logit_scale pad_id quick_gelu"
    embed_dim: Size
    vision_cfg: Vision
    text_cfg: Text
    multimodal_cfg: Text | None = None

    @property
    def blocks(self) -> dict[str, int]:
        """Transformer blocks of each tower by its name in the config, for the towers that have them."""
        layers = {
            "vision_cfg": None if self.vision_cfg.timm_model_name else self.vision_cfg.layers,
            "text_cfg": None if self.text_cfg.hf_model_name else self.text_cfg.layers,
        }
        return {name: count for name, count in layers.items() if isinstance(count, int)}

    @property
    def parameters(self) -> int:
        """Lower bound of the number of parameters; towers of other libraries and ResNets count as 0."""
        total = 0
        for name, layers in self.blocks.items():
            tower = getattr(self, name)
            total += int(layers * tower.width**2 * (4 + 2 * tower.mlp_ratio))
        if "text_cfg" in self.blocks:
            total += self.text_cfg.width * (self.text_cfg.vocab_size + self.text_cfg.context_length)
        if "vision_cfg" in self.blocks:
            vision = self.vision_cfg
            side, patch = vision.image_size, vision.patch_size or 1
            height, width = (side[0], side[-1]) if isinstance(side, list) else (side, side)
            total += vision.width * (3 * patch**2 + (height // patch) * (width // patch))
        return total


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
    for folder in package.submodule_search_locations or () if package else ():
        file = Path(folder) / "model_configs" / f"{params.model.replace('/', '-')}.json"
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
        text = path.read_text(encoding="utf-8")
        config = json.loads(text)
    except (ValueError, RecursionError, OSError) as error:
        raise ModelError(f"{key}: {path} is not JSON in UTF-8 ({one_line(error, limit=200)})") from None
    if of_hub and isinstance(config, dict):
        config = config.get("model_cfg")
    if not isinstance(config, dict):
        what = f"it is {type(config).__name__}, expected an object with embed_dim, vision_cfg and text_cfg"
        raise ModelError(f"{key}: {path} is not an open_clip model config: {what}")
    if "trust_remote_code" in text:
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
    """Raise ModelError if a weights file is too small for the model, at one byte per parameter."""
    size = weights.stat().st_size
    if config.parameters > size:
        raise ModelError(
            f"encoder.pretrained: {weights} has {size:,} bytes, and encoder.config asks for {config.parameters:,} "
            "parameters or more; they do not belong together, or the file is truncated: download it again"
        )
