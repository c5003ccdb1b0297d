"""Small folders drawn from photo sets: what a user would have, and the photos that judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from benchmarks.heads.photos import PhotoSet
from wsoup.core.class_texts import normalize
from wsoup.core.draws import named_generator
from wsoup.core.soup import EncoderId
from wsoup.heads.fewshot import FewShot
from wsoup.heads.prototypes import class_means

SIZES = (5, 10, 20, 45)
"""Classes of the folders that are drawn beside the whole set, where it has more than these."""
SHOTS = (1, 2, 4, 8, 16)
STRENGTHS = (0.0, 0.5, 1.0)
"""a of t -> norm(t + a m)."""
FOR_TEXTS = 5
"""One in so many photos of each class strengthens texts, and does nothing else."""
SPREAD = 0.8
"""Standard deviation of the log of a class's number of photos, in an unequal folder."""


@dataclass(frozen=True)
class Kind:
    """What is asked of a folder.

    Attributes:
        shots: photos of each class to learn from; in an unequal folder, their median.
        equal: whether every class has as many.
        strength: a of t -> norm(t + a m), with m the direction of the mean of a fifth of the class's photos.
        cone: c of `in_cone`.
    """

    shots: int
    equal: bool
    strength: float
    cone: float = 0.0


@dataclass(frozen=True)
class Folder:
    """One folder of a user, and fresh photos.

    Attributes:
        source: of `PhotoSet`.
        kind: what was asked.
        class_names: C names.
        texts: class texts (C, D) by row.
        shown, held_out, fresh: (features, labels) to learn from, to choose between rows, and to judge.
        styles: (features, labels) of the same classes in each other style.
        logit_scale, encoder: as of `PhotoSet`.
    """

    source: str
    kind: Kind
    class_names: list[str]
    texts: dict[str, Tensor]
    shown: tuple[Tensor, Tensor]
    held_out: tuple[Tensor, Tensor]
    fresh: tuple[Tensor, Tensor]
    styles: list[tuple[Tensor, Tensor]]
    logit_scale: float
    encoder: EncoderId

    def few_shot(self, row: str) -> FewShot:
        """What a head learns from, with the texts of a row."""
        features, labels = self.shown
        return FewShot(features.double(), labels, self.texts[row].double().T.contiguous(), self.logit_scale)


def folders(
    sets: Sequence[PhotoSet], *, targets: Sequence[PhotoSet], draws: range, cones: Sequence[float]
) -> Iterator[Folder]:
    """Every kind of folder of every set, in so many draws.

    Args:
        sets: where folders come from.
        targets: further sets; those with the same class names are other styles.
        draws: of classes and of photos.
        cones: c of `in_cone`; each folder comes once for each.
    """
    for photos, draw in product(sets, draws):
        others = [other for other in targets if other is not photos and other.class_names == photos.class_names]
        n_classes = len(photos.class_names)
        for size in [size for size in SIZES if size < n_classes] + [n_classes]:
            classes = np.sort(named_generator(photos.name, size, draw).permutation(n_classes)[:size])
            part = only(photos, classes=classes)
            styles = [only(other, classes=classes) for other in others]
            for shots, equal in product(SHOTS, (True, False)):
                for folder, cone in product(_divided(part, styles=styles, shots=shots, equal=equal, draw=draw), cones):
                    yield in_cone(folder, cone=cone)


def in_cone(folder: Folder, *, cone: float) -> Folder:
    """The same folder by an encoder whose photos, and whose texts, all lie in a cone, as CLIP's do.

    A vector of length c is added to all photos and another to all texts, both at right angles to all else; lengths are
    made 1 again. So cosines of photos and texts shrink by 1 + c^2, by which the logit scale grows: the answers of texts
    stay as they are.
    """
    if not cone:
        return folder
    longer = 1 + cone**2

    def photos(of: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        features, labels = of
        return lifted(features, cone=cone, axis=0), labels

    return replace(
        folder,
        kind=replace(folder.kind, cone=cone),
        texts={row: lifted(texts, cone=cone, axis=1) for row, texts in folder.texts.items()},
        shown=photos(folder.shown),
        held_out=photos(folder.held_out),
        fresh=photos(folder.fresh),
        styles=[photos(style) for style in folder.styles],
        logit_scale=folder.logit_scale * longer,
    )


def lifted(vectors: Tensor, *, cone: float, axis: int) -> Tensor:
    """Vectors (N, D) with two more numbers, c on the axis and 0 on the other, and of length 1 again: (N, D + 2)."""
    further = torch.zeros(len(vectors), 2)
    further[:, axis] = cone
    return normalize(torch.cat([vectors, further], dim=1))


def only(photos: PhotoSet, *, classes: np.ndarray) -> PhotoSet:
    """The photos of some classes."""
    new_labels = torch.full((len(photos.class_names),), -1)
    new_labels[classes] = torch.arange(len(classes))
    labels = new_labels[photos.labels]
    kept = labels >= 0
    names = [photos.class_names[label] for label in classes.tolist()]
    texts = {row: features[classes] for row, features in photos.texts.items()}
    name = f"{photos.name}, {len(classes)} classes"
    return PhotoSet(name, names, photos.features[kept], labels[kept], texts, photos.logit_scale, photos.encoder)


def _divided(photos: PhotoSet, *, styles: Sequence[PhotoSet], shots: int, equal: bool, draw: int) -> Iterator[Folder]:
    """The folders of one draw, which differ in their texts alone."""
    generator = named_generator(photos.name, shots, equal, draw)
    use = torch.zeros(len(photos.labels), dtype=torch.int64)
    for label in range(len(photos.class_names)):
        of_class = generator.permutation((photos.labels == label).nonzero()[:, 0].numpy())
        n_for_texts = len(of_class) // FOR_TEXTS
        left = of_class[n_for_texts:]
        n_shots = shots
        if not equal:
            n_shots = max(1, round(shots * float(np.exp(SPREAD * generator.standard_normal()))))
        # A quarter of the rest stays fresh, whatever is asked.
        n_shots = min(n_shots, 3 * len(left) // 4)
        n_held_out = min(n_shots, (len(left) - n_shots) // 2)
        use[left[:n_shots]] = 1
        use[left[n_shots : n_shots + n_held_out]] = 2
        use[left[n_shots + n_held_out :]] = 3
    parts = [(photos.features[use == part], photos.labels[use == part]) for part in range(4)]
    means = class_means(*parts[0], n_classes=len(photos.class_names))
    for strength in STRENGTHS:
        texts = {row: normalize(features + strength * means) for row, features in photos.texts.items()}
        yield Folder(
            source=photos.name,
            kind=Kind(shots, equal, strength),
            class_names=photos.class_names,
            texts=texts,
            shown=parts[1],
            held_out=parts[2],
            fresh=parts[3],
            styles=[(other.features, other.labels) for other in styles],
            logit_scale=photos.logit_scale,
            encoder=photos.encoder,
        )
