"""Which photos a soup without labels could leave unanswered, by three rules, and how right it then is.

python -m benchmarks.unsure PHOTOS... --model M --pretrained P --cache FOLDER
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from benchmarks.heads.photos import PhotoSet, photo_set
from wsoup.api.encoders import EncoderOptions
from wsoup.api.hub import DEFAULTS
from wsoup.cli import common
from wsoup.photos.trial import CLASS_NAME

NEAREST = 10
"""Other photos that a photo's neighbours are."""


def by_probability(features: Tensor, scores: Tensor, logit_scale: float) -> Tensor:
    """The model's own probability of its answer: (N, D), (N, C) -> (N,)."""
    return (logit_scale * scores).softmax(dim=1).amax(dim=1)


def by_neighbours(features: Tensor, scores: Tensor, logit_scale: float) -> Tensor:
    """The share of the nearest other photos that have the same answer."""
    answers = scores.argmax(dim=1)
    cosines = (features @ features.T).fill_diagonal_(-torch.inf)
    nearest = cosines.topk(min(NEAREST, len(features) - 1)).indices
    return (answers[nearest] == answers[:, None]).float().mean(dim=1)


def by_margin(features: Tensor, scores: Tensor, logit_scale: float) -> Tensor:
    """How right answers with at least this margin are, if a wrong class leads by what the second leads the third by.

    The share of wrong answers among all is that of neighbours with another answer.
    """
    first, second, third = scores.topk(3).values.T
    margins = first - second
    wrong = (second - third).sort().values
    not_less = 1 - torch.searchsorted(wrong, margins) / len(wrong)
    answered = 1 - torch.searchsorted(margins.sort().values, margins) / len(margins)
    share_wrong = 1 - by_neighbours(features, scores, logit_scale).mean()
    return (1 - share_wrong * not_less / answered).clamp(0, 1)


RULES: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "probability": by_probability,
    "neighbours": by_neighbours,
    "margin": by_margin,
}


def answered(confidences: Tensor, *, promised: float) -> Tensor:
    """The surest photos, as many as have a mean confidence of `promised`: their positions."""
    surest, order = confidences.sort(descending=True, stable=True)
    means = surest.cumsum(dim=0) / torch.arange(1, len(surest) + 1)
    n = int((means >= promised).sum())
    return order[:n]


def line(photos: PhotoSet, *, rule: str, promised: float) -> str:
    """How many photos a rule answers, and how many of these answers are right."""
    scores = photos.features @ photos.texts[CLASS_NAME].T
    confidences = RULES[rule](photos.features, scores, photos.logit_scale)
    kept = answered(confidences, promised=promised)
    right = scores.argmax(dim=1) == photos.labels
    n_right = int(right[kept].sum())
    share = f"{n_right / len(kept):.1%}" if len(kept) else "none"
    return f"{photos.name},{rule},{promised:.0%},{len(kept)},{len(right)},{n_right},{share},{right.float().mean():.1%}"


def main(
    photos: Annotated[list[str], typer.Argument(help="Folders of <class>/<image>, or with train/ and test/ of such.")],
    cache: Annotated[Path, typer.Option(help="Where features are kept, outside the repository.")],
    promised: Annotated[float, typer.Option(min=0, max=1, help="How many answers of 1 shall be right.")] = 0.9,
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    image_mean: common.ImageMean = None,
    image_std: common.ImageStd = None,
    interpolation: common.Interpolation = None,
    device: common.Device = "cpu",
) -> None:
    """Print as CSV how right the surest answers of the class names are."""
    options = EncoderOptions(model, pretrained, config, image_mean, image_std, interpolation)
    encoder = options.load(device=device, origin="benchmarks.unsure", defaults=DEFAULTS)
    print("photos,rule,promised,answered,n_images,n_right,right,all right")
    for root in photos:
        of_folder = photo_set(root, encoder=encoder, cache=cache)
        for rule in RULES:
            print(line(of_folder, rule=rule, promised=promised))


if __name__ == "__main__":
    typer.run(main)
