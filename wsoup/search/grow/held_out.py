"""Texts that are ranked on one half of the shots and accepted on the other. Source: this project.

Algorithm 1 with its two steps on different images, and with the likelihood of the labels instead of a count. The shots
of each class are split at random into halves. On the first half, each text is ranked by its likelihood alone; then each
next one is accepted if it raises the likelihood of the soup on the second half, which had no say in the ranking. This
is done for several splits, and the soup has the texts of all, so that a text chosen on several splits weighs more.

Texts have the final period, as when they are evaluated: without it, soups of words gained about half a point less on
photographs.

Forward selection by a likelihood on several random samples is ensemble selection (Caruana et al., ICML 2004).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from wsoup.base.errors import DataError
from wsoup.core.draws import member_generator
from wsoup.core.member import Member
from wsoup.search.grow.greedy import greedy_soup
from wsoup.search.grow.kind import AnySoup, counted_alone
from wsoup.search.grow.measures import likely_on, millionths
from wsoup.search.pools.params import MemberCount, TextCount

if TYPE_CHECKING:
    from torch import Tensor

    from wsoup.search.rank.meter import Meter
    from wsoup.search.rank.ranking import Ranked

WALKED = 256
"""Texts that are compared at a time while a soup grows."""
KEPT_BYTES = 1 << 30
"""Features of all candidates are kept for the splits up to this size; more are encoded again for each split."""


class HeldOutSoup(AnySoup):
    """Texts ranked on half of the shots and accepted on the other half, by likelihood, for several random halves."""

    walks: ClassVar[bool] = True
    finished: ClassVar[bool] = True
    written = frozenset({"k1"})
    kind: Literal["held_out"]
    k1: TextCount | None = None
    """Texts come from the top k1 of the ranking by count; null: from the whole pool, which is encoded again."""
    per_split: MemberCount
    """At most this many texts are chosen on one split of the shots; there are m / per_split splits."""

    @property
    def splits(self) -> int:
        """Number of splits; the last one may have fewer texts."""
        return -(-self.m // self.per_split)

    def members(self, ranked: Ranked, meter: Meter, *, part: int) -> list[Member]:
        """The whole soup, split by split. A longer soup starts with a shorter one, unless that ends within a split.

        Raises:
            PoolError: there are no texts.
            DataError: a single image, which has no halves.
        """
        from wsoup.search.rank.likelihood import likeliest_scale  # torch is slow to import

        images, labels = meter.images
        halves = [Halves.of(labels.cpu().numpy(), seed=meter.seed, split=split) for split in range(self.splits)]
        (class_name,) = next(iter(meter.source.text_blocks([""], period=meter.period)))
        scale = likeliest_scale(images, labels, class_name)
        position = {text: i for i, text in enumerate(ranked.texts)}
        candidates = _Candidates(ranked.texts, meter)
        chosen: list[int] = []
        for half, values in zip(halves, _alone(candidates, meter, halves=halves, scale=scale), strict=True):
            order = np.argsort(-values, kind="stable")
            grown = greedy_soup(
                [ranked.texts[i] for i in order],
                features=candidates.of,
                measure=likely_on(images[half.accepts], labels[half.accepts], scale=scale),
                m=min(self.per_split, self.m - len(chosen)),
            )
            chosen += [position[member.text] for member in grown]
        return ranked.singles(chosen)

    def final_counts(self, texts: Sequence[str], meter: Meter) -> list[int]:
        """Of each text alone: no count of the whole soup was taken."""
        return counted_alone(texts, meter)


class _Candidates:
    """Features of the candidates with every class, in blocks (b, C, D).

    Args:
        texts: P candidates.
        meter: encodes them.
    """

    def __init__(self, texts: Sequence[str], meter: Meter) -> None:
        self.texts = texts
        self.meter = meter
        self.kept: dict[str, Tensor] = {}  # all texts, or none

    def all(self) -> Iterator[Tensor]:
        """Of all, in order; kept where they fit into `KEPT_BYTES`."""
        start = 0
        for block in self.meter.blocks(self.texts):
            if len(self.texts) * block[0].nbytes <= KEPT_BYTES:
                self.kept |= zip(self.texts[start : start + len(block)], block, strict=True)
            start += len(block)
            yield block

    def of(self, texts: Sequence[str]) -> Iterator[Tensor]:
        """Of some, after `all`, `WALKED` at a time: a split often ends after a few hundred of them."""
        import torch

        for start in range(0, len(texts), WALKED):
            some = texts[start : start + WALKED]
            if self.kept:
                yield torch.stack([self.kept[text] for text in some])
            else:
                yield from self.meter.blocks(some)


class Halves(NamedTuple):
    """Positions of the images that rank texts, and of those that accept them; int64, ascending."""

    ranks: np.ndarray
    accepts: np.ndarray

    @classmethod
    def of(cls, labels: np.ndarray, *, seed: int, split: int) -> Halves:
        """Random halves of images with labels (N,). Each class is divided evenly, up to one image.

        Raises:
            DataError: there are fewer than two images.
        """
        if len(labels) < 2:
            raise DataError(
                f"a held_out soup needs two images or more to split, not {len(labels)}; raise fewshot.shots"
            )
        generator = member_generator(purpose="held_out", seed=seed, member=split)
        shuffled = generator.permutation(len(labels))
        by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
        # Alternating through all classes also divides classes of one image each.
        return cls(np.sort(by_class[::2]), np.sort(by_class[1::2]))


def _alone(candidates: _Candidates, meter: Meter, *, halves: Sequence[Halves], scale: float) -> np.ndarray:
    """The mean log likelihood of each text alone on the images that rank, in millionths: (S, P) float64."""
    import torch

    from wsoup.search.rank.likelihood import log_likelihoods

    images, labels = meter.images
    blocks = []
    for block in candidates.all():
        of_label = log_likelihoods(images, labels, block, scale=scale)
        blocks.append(torch.stack([millionths(of_label[:, half.ranks]) for half in halves]))
    if not blocks:
        return np.empty((len(halves), 0))
    return torch.cat(blocks, dim=1).cpu().numpy()
