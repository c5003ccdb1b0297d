"""What a soup says of classes: one text feature for each, and the scale on which a model compares it with images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from wsoup.core import prompts
from wsoup.core.scoring import normalize, weighted_mean
from wsoup.soup.soup import Soup
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.fits import check_fits

LOGIT_SCALE = 100.0
"""CLIP's own; for a model that has none."""


def class_texts(of: Soup, *, template: str, class_names: Sequence[str], encoder: PromptEncoder) -> Tensor:
    """The soup's centroid of each class, on the CPU: (C, D).

    Raises:
        PoolError: a text does not fit the model's context behind a class.
    """
    stems = prompts.stems(template, class_names)
    texts, weights = zip(*of.weighted_texts, strict=True)
    step = "it would be cut; shorten the class name or the template"
    check_fits(texts, stems=stems, tokenizer=encoder.tokenizer, step=step)
    features = encoder.encode_grid(stems, [prompts.ending(text, period=True) for text in texts])  # (M, C, D)
    return normalize(weighted_mean(features, weights)).cpu()


def logit_scale_of(model: Any) -> float:
    """What the model multiplies cosines by; `LOGIT_SCALE` where it has no `logit_scale`."""
    scale = getattr(model, "logit_scale", None)
    return float(scale.detach().exp()) if isinstance(scale, Tensor) else LOGIT_SCALE
