"""Sections `encoder` and `embed`: the model, and how images go through it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from wsoup.core.arguments import Flag
from wsoup.core.params.section import Place, PositiveInt, Section, Text

Mean = Annotated[float, Field(ge=-1e6, le=1e6)]
Deviation = Annotated[float, Field(ge=1e-6, le=1e6)]


class EncoderParams(Section):
    """The open_clip model whose image and text towers are used."""

    model: Text
    """Any open_clip model name, the stem of `config`, or hf-hub:owner/name or local-dir:FOLDER with its weights."""
    pretrained: Place | None = None
    """A tag of open_clip, or a weights file; null where `model` says where they lie."""
    config: Place | None = None
    """A local open_clip JSON config; null for a model that open_clip knows."""
    quick_gelu: Flag | None = None
    """The activation that local weights were trained with, where their config does not say; a tag says it."""
    image_mean: tuple[Mean, Mean, Mean] | None = None
    """Mean of red, green and blue that images are normalised with; null: as the model says."""
    image_std: tuple[Deviation, Deviation, Deviation] | None = None
    """Their standard deviation; null: as the model says."""
    interpolation: Literal["bicubic", "bilinear"] | None = None
    """How images are resized (bilinear: the authors'); null: as the model says."""
    decoding: Literal["upright", "stored"] = "upright"
    """upright: EXIF rotation is applied, and transparency laid over white; stored: neither, as the authors' loader."""
    precision: Literal["fp32", "bf16", "fp16", "reference"]
    """fp32, bf16 or fp16 (autocast), or reference (fp32, TF32 off)."""
    watch: Place
    """What DVC watches: config and weights file, or their folder; data/nothing_to_watch.txt for a tag."""

    @property
    def comes_with_weights(self) -> bool:
        """Whether the model's name says where its weights lie: ``hf-hub:owner/name``, ``local-dir:/a/folder``."""
        return self.model.startswith(("hf-hub:", "local-dir:"))

    @property
    def weights_file(self) -> Path | None:
        """`pretrained` where it is the name of a file, not a tag."""
        name = self.pretrained or ""
        is_file = Path(name).suffix in (".safetensors", ".pt", ".pth", ".bin") or os.sep in name
        return Path(name) if is_file else None


class EmbedParams(Section):
    """Image features."""

    batch_size: Annotated[PositiveInt, Field(le=65_536)]
    """Images in one forward pass."""
    on_bad_image: Literal["stop", "skip"]
    """A file that cannot be decoded ends the stage (stop), or is listed and left out (skip)."""
