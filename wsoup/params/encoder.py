"""Sections `encoder` and `embed`: the model, and how images go through it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from wsoup.params.section import Place, PositiveInt, Section, Text

Mean = Annotated[float, Field(ge=-1e6, le=1e6)]
Deviation = Annotated[float, Field(ge=1e-6, le=1e6)]


class EncoderParams(Section):
    """The open_clip model whose image and text towers are used."""

    model: Text
    pretrained: Place | None = None
    config: Place | None = None
    image_mean: tuple[Mean, Mean, Mean] | None = None
    image_std: tuple[Deviation, Deviation, Deviation] | None = None
    interpolation: Literal["bicubic", "bilinear"] | None = None
    precision: Literal["fp32", "bf16", "fp16", "reference"]
    watch: Place


class EmbedParams(Section):
    """Image features."""

    batch_size: Annotated[PositiveInt, Field(le=65_536)]
    on_bad_image: Literal["stop", "skip"]
