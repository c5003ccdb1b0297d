"""What every row gets right in one folder, and what `wsoup try` would recommend there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from benchmarks.heads.folders import Folder, Kind
from benchmarks.heads.photos import TEMPLATE, TEXT_ROWS
from benchmarks.heads.rivals import RIVALS, Logits
from wsoup.core.member import Member
from wsoup.core.soup import Soup
from wsoup.heads.head import Head, best_head
from wsoup.heads.in_turn import CLASS_MEANS, FEW, judged_in_turn
from wsoup.photos.trial import CLASS_NAME, CONFIDENCE, HEAD_KINDS, SOUP
from wsoup.statistics.advice import HEAD, Right, advise
from wsoup.statistics.noise import compare_images

ON_CLASS_NAME = "head on class name"
ON_SOUP = f"head on {SOUP}"
NOISE = 1.96
"""Standard errors within which a row is as good as the best."""


@dataclass(frozen=True)
class Judged:
    """Results of one folder.

    Attributes:
        source, kind: of `Folder`.
        own, styles: per cent of right answers by row, on fresh photos of the same style, and the mean over others.
        use: the row that `try` recommends.
        within_noise: whether it is the best of `try`'s rows on the fresh photos, or within noise of it.
        answered: of own and of other styles: photos, those that `Head.threshold` answers, and the right ones of these.
    """

    source: str
    kind: Kind
    own: dict[str, float]
    styles: dict[str, float]
    use: str
    within_noise: bool
    answered: dict[str, tuple[int, int, int]]


def judged(folder: Folder, *, rivals: Collection[str]) -> Judged:
    """Fit all rows of one folder and count.

    Args:
        folder: the folder.
        rivals: of `RIVALS`.
    """
    head = _head(folder, row=CLASS_NAME)
    on_soup = _head(folder, row=SOUP)
    by_row: dict[str, Logits] = {row: _linear(folder.texts[row].T) for row in TEXT_ROWS}
    by_row[ON_CLASS_NAME] = _linear(head.classifier)
    by_row[ON_SOUP] = _linear(on_soup.classifier)
    for name in [CLASS_MEANS, *rivals]:
        by_row[name] = RIVALS[name](folder.few_shot(CLASS_NAME), _double(folder.held_out))
    own = {row: _right(logits, folder.fresh) for row, logits in by_row.items()}
    styles = {}
    if folder.styles:
        for row, logits in by_row.items():
            styles[row] = float(np.mean([100 * _right(logits, photos).mean() for photos in folder.styles]))
    right, in_turn = seen_by_try(folder, head=head)
    n_classes = {"photos": len(folder.class_names)}
    use = advise(right, n_classes=n_classes, confidence=CONFIDENCE, in_turn=in_turn).use
    competing = {row: own[row] for row in (*TEXT_ROWS, CLASS_MEANS)} | {HEAD: own[ON_CLASS_NAME]}
    best = max(competing, key=lambda row: competing[row].mean())
    behind = compare_images({"": competing[best][None]}, {"": competing[use][None]}).fixed
    return Judged(
        source=folder.source,
        kind=folder.kind,
        own={row: float(100 * right.mean()) for row, right in own.items()},
        styles=styles,
        use=use,
        within_noise=behind.mean <= NOISE * behind.se,
        answered=_answered(head, folder),
    )


def _head(folder: Folder, *, row: str) -> Head:
    """The default head on the texts of a row, whatever soup it is said to be of."""
    soup = Soup("class_name", 0, TEMPLATE, folder.encoder, (Member(""),))
    return best_head(
        folder.few_shot(row),
        kind=HEAD_KINDS[HEAD],
        soup=soup,
        template=soup.template,
        class_names=folder.class_names,
        encoder=folder.encoder,
        note="",
    )


def _linear(weights: Tensor) -> Logits:
    """Of weights (D, C)."""
    weights = weights.double()
    return lambda features: features @ weights


def _double(photos: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    features, labels = photos
    return features.double(), labels


def _right(logits: Logits, photos: tuple[Tensor, Tensor]) -> np.ndarray:
    """Which photos are right, (N,) bool."""
    features, labels = _double(photos)
    return (logits(features).argmax(dim=1) == labels).numpy()


def seen_by_try(folder: Folder, *, head: Head) -> tuple[dict[str, Right], dict[str, Right] | None]:
    """What `wsoup try` sees of its rows: right answers held out, and on all labelled photos in turn if few."""
    features, labels = folder.held_out
    rows = {row: _linear(folder.texts[row].T) for row in TEXT_ROWS}
    rows[CLASS_MEANS] = RIVALS[CLASS_MEANS](folder.few_shot(CLASS_NAME), folder.held_out)
    rows[HEAD] = _linear(head.classifier)
    right: dict[str, Right] = {row: {"photos": _right(logits, folder.held_out)} for row, logits in rows.items()}
    if len(labels) >= FEW:
        return right, None
    shown, shown_labels = folder.shown
    in_train = torch.arange(len(labels) + len(shown_labels)) < len(shown_labels)
    shares = judged_in_turn(
        torch.cat([shown, features]),
        torch.cat([shown_labels, labels]),
        in_train=in_train,
        head=head,
        texts=folder.texts,
        of_head=CLASS_NAME,
        seed=0,
    )
    in_turn: dict[str, Right] = {row: {"photos": of_row.numpy()} for row, of_row in shares.items()}
    return right, in_turn


def _answered(head: Head, folder: Folder) -> dict[str, tuple[int, int, int]]:
    """Of own and other styles: photos, those that `threshold()` answers, and those of them that are right."""
    sides = {"own": [folder.fresh], "styles": folder.styles}
    counts = {}
    for side, sets in sides.items():
        n_images = 0
        n_answered = 0
        n_right = 0
        for features, labels in sets:
            answers = head.predict(features, at_least=head.threshold())
            n_images += len(labels)
            n_answered += int((answers >= 0).sum())
            n_right += int((answers == labels).sum())
        counts[side] = (n_images, n_answered, n_right)
    return counts
