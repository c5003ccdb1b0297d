"""Sections `encoder` and `embed`: the model, and how images go through it."""

from __future__ import annotations

from typing import Literal

from wsoup.params.section import PositiveInt, Section


class EncoderParams(Section):
    """The open_clip model whose image and text towers are used.

    `quick_gelu`: the activation that local weights were trained with, where their config does not say; a tag says it.
    """

    model: str
    pretrained: str | None = None
    config: str | None = None
    quick_gelu: bool | None = None
    image_mean: tuple[float, float, float] | None = None
    image_std: tuple[float, float, float] | None = None
    interpolation: Literal["bicubic", "bilinear"] | None = None
    precision: Literal["fp32", "bf16", "fp16", "reference"]
    watch: str


class EmbedParams(Section):
    """Image features."""

    batch_size: PositiveInt
    on_bad_image: Literal["stop", "skip"]
