"""Images that come in batches: each batch is answered with what came before it, and before the next one is seen.

What is carried from batch to batch are sums (`wsoup.adapt.passes.Seen`), to which each batch adds its own. Answers of
long ago were given by a classifier that knew little. So a few thousand images are kept as well, every so-manieth of
all, and whenever the stream has grown by a quarter, they are all answered again and stand for the whole. A batch costs
the same whatever came before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from wsoup.adapt import guard
from wsoup.adapt.adapted import Adapted
from wsoup.adapt.em import Estimate, estimated
from wsoup.adapt.kinds import KINDS, checked
from wsoup.adapt.passes import look

KEPT = 4096
"""Images that are kept at least, and fewer than twice as many."""
GROWTH = 1.25


def stream(
    batches: Iterable[Tensor],
    *,
    texts: Tensor,
    logit_scale: float,
    kind: str,
    keep: int = KEPT,
    growth: float = GROWTH,
) -> Iterator[tuple[Tensor, Adapted]]:
    """Adapt to a batch and the images before it, batch after batch.

    Args:
        batches: (B, D) each, L2-normalised; B may differ.
        texts, logit_scale, kind: as in `wsoup.adapt.kinds.adapt`.
        keep: images that are kept at least, and fewer than twice as many.
        growth: all that are kept are answered again when there are so many times the images of the last time.

    Yields:
        The batch, and the classifier that answers it, or the texts' own.
    """
    kept, stride, n, n_then = texts.new_zeros(0, len(texts)).float(), 1, 0, 0.0
    far: Estimate | None = None
    for batch in batches:
        alone = checked(batch, texts=texts, logit_scale=logit_scale, kind=kind)
        kept = torch.cat([kept, batch[-n % stride :: stride].float()])
        n += len(batch)
        if len(kept) >= 2 * keep:
            kept, stride = kept[::2].clone(), 2 * stride
        if n >= growth * n_then:
            far = estimated(kept, alone=alone, logit_scale=logit_scale, first=look(kept, by=alone)) * (n / len(kept))
            n_then = n
        else:
            first = look(batch, by=alone)
            far = estimated(batch, alone=alone, logit_scale=logit_scale, first=first, earlier=far, rounds=1)
        why_not = guard.before(far.before)
        yield batch, replace(alone, note=why_not) if why_not else KINDS[kind](far)
