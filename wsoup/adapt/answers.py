"""A pile's answers before and after adaptation, whether it comes at once or in batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wsoup.adapt.kinds import adapt, checked
from wsoup.adapt.stream import stream


@dataclass(frozen=True)
class Answers:
    """Of one pile.

    Attributes:
        before: (N,) int64, the texts' own.
        after: (N,) int64.
        adapted: share of the images that an adapted classifier answered: the guard left the others to the texts.
    """

    before: Tensor
    after: Tensor
    adapted: float


def answers(features: Tensor, *, texts: Tensor, logit_scale: float, kind: str, batch: int) -> Answers:
    """Answer a pile (N, D); `batch` images come together, 0: all. The other arguments are those of `adapt`."""
    how: dict[str, Any] = {"texts": texts, "logit_scale": logit_scale, "kind": kind}
    before = checked(features, **how).predict(features)
    after, adapted = [], 0
    for images, made in stream(features.split(batch), **how) if batch else [(features, adapt(features, **how))]:
        after.append(made.predict(images))
        adapted += len(images) * made.adapted
    return Answers(before, torch.cat(after), adapted / len(features))
