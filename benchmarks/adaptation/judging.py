"""What adaptation to a pile gains."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from benchmarks.adaptation.piles import Pile
from wsoup.photos.adaptation import DOUBTED, adapted_to


@dataclass(frozen=True)
class Judged:
    """Results of one pile.

    Attributes:
        source, kind, strength: of `Pile`.
        n_images, n_classes: of the pile, and of its texts.
        before, after: per cent of the photos of classes that are right by the texts and after adaptation.
        note: why it was not adapted, or "".
        doubted: whether the note says that texts may be random.
    """

    source: str
    kind: str
    strength: str
    n_images: int
    n_classes: int
    before: float
    after: float
    note: str
    doubted: bool

    @property
    def gain(self) -> float:
        """In points."""
        return self.after - self.before


def judged(pile: Pile) -> Judged:
    """Adapt to a pile, and count."""
    adapted = adapted_to(pile.features, texts=pile.texts, logit_scale=pile.logit_scale)
    return Judged(
        source=pile.source,
        kind=pile.kind,
        strength=pile.strength,
        n_images=len(pile.features),
        n_classes=pile.texts.shape[1],
        before=_right((pile.features @ pile.texts).argmax(dim=1), pile),
        after=_right(adapted.predict(pile.features), pile),
        note="" if adapted.adapted else adapted.note,
        doubted=DOUBTED in adapted.note,
    )


def _right(answers: Tensor, pile: Pile) -> float:
    """Per cent of the photos of classes that are right."""
    is_own = pile.labels >= 0
    is_right = answers[is_own] == pile.labels[is_own]
    return 100 * float(is_right.double().mean())
