"""Adapt to a stream: each batch is classified with the images before it, without seeing the next one.

Statistics carry over from batch to batch, and each batch adds its own. Early predictions came from a poor classifier,
so a few thousand evenly spaced images are kept, too: whenever the stream has grown by a quarter, EM runs on them again
and they stand for the whole. The cost of a batch does not depend on how many came before.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from wsoup.adaptation import kinds
from wsoup.adaptation.adapted import Adapted, predict_softly
from wsoup.adaptation.kinds import KINDS, Estimate, adapt, checked, estimate

KEPT = 4096
"""Smallest number of images kept; the largest is twice as many."""
GROWTH = 1.25


def predictions(
    features: Tensor, *, texts: Tensor, logit_scale: float, kind: str, batch: int
) -> tuple[Tensor, Tensor, float]:
    """Classify a pile at once or as a stream.

    Args:
        features: (N, D).
        texts, logit_scale, kind: as in `wsoup.adaptation.kinds.adapt`.
        batch: images per batch of the stream; 0: all at once.

    Returns:
        Zero-shot predictions (N,) int64, adapted ones, and the share of images whose batch the guard let be adapted.
    """
    options: dict[str, Any] = {"texts": texts, "logit_scale": logit_scale, "kind": kind}
    before = checked(features, **options).predict(features)
    after, n_adapted = [], 0
    whole = [(features, adapt(features, **options))] if not batch else stream(features.split(batch), **options)
    for images, classifier in whole:
        after.append(classifier.predict(images))
        n_adapted += len(images) * classifier.adapted
    return before, torch.cat(after), n_adapted / len(features)


def stream(
    batches: Iterable[Tensor],
    *,
    texts: Tensor,
    logit_scale: float,
    kind: str,
    keep: int = KEPT,
    growth: float = GROWTH,
) -> Iterator[tuple[Tensor, Adapted]]:
    """Adapt to each batch and the images before it.

    Args:
        batches: (B, D) each, L2-normalised; B may vary.
        texts, logit_scale, kind: as in `wsoup.adaptation.kinds.adapt`.
        keep: smallest number of images kept; the largest is twice as many.
        growth: factor by which the stream grows between two runs of EM on the images kept.

    Yields:
        The batch, and the classifier for it, which is the zero-shot one where the guard says so.
    """
    kept, stride, n, n_at_refresh = texts.new_zeros(0, len(texts)).float(), 1, 0, 0.0
    pile: Estimate | None = None
    for batch in batches:
        zero_shot = checked(batch, texts=texts, logit_scale=logit_scale, kind=kind)
        kept = torch.cat([kept, batch[-n % stride :: stride].float()])
        n += len(batch)
        if len(kept) >= 2 * keep:
            kept, stride = kept[::2].clone(), 2 * stride
        if n >= growth * n_at_refresh:
            first = predict_softly(kept, by=zero_shot)
            pile = estimate(kept, zero_shot=zero_shot, logit_scale=logit_scale, first=first) * (n / len(kept))
            n_at_refresh = n
        else:
            first = predict_softly(batch, by=zero_shot)
            pile = estimate(batch, zero_shot=zero_shot, logit_scale=logit_scale, first=first, earlier=pile, rounds=1)
        rejection = kinds.reject_texts(pile.before)
        yield batch, replace(zero_shot, note=rejection) if rejection else KINDS[kind](pile)
