"""Images that come in batches: each batch is answered with what came before it, and before the next one is seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from wsoup.adapt.adapted import Adapted
from wsoup.adapt.kinds import adapt


def stream(
    batches: Iterable[Tensor], *, texts: Tensor, logit_scale: float, kind: str, memory: int
) -> Iterator[tuple[Tensor, Adapted]]:
    """Adapt to a batch and the images before it, batch after batch.

    Args:
        batches: (B, D) each, L2-normalised; B may differ.
        texts, logit_scale, kind: as in `wsoup.adapt.kinds.adapt`.
        memory: images that are kept at most, the batch among them; each batch costs as much as a pile of so many.

    Yields:
        The batch, and the classifier that answers it: of the batch and the last images before it, or the texts' own.
    """
    kept = texts.new_zeros(0, texts.shape[0]).float()
    for batch in batches:
        kept = torch.cat([kept, batch.float()])[-max(memory, len(batch)) :]
        yield batch, adapt(kept, texts=texts, logit_scale=logit_scale, kind=kind)
