"""Photos one batch after the other -> the most probable classes of each, and which members of the soup agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from wsoup.api.soups import soup_features
from wsoup.images.decode import batches
from wsoup.runtime.progress import progress
from wsoup.soup.soup import Soup
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder

LOGIT_SCALE = 100.0
"""Of a model that has none of its own: what CLIP's is after training."""


@dataclass(frozen=True)
class Prediction:
    """What is seen in one photo.

    Attributes:
        path: the photo.
        classes, probabilities: the most probable classes, best first.
        agreeing: members of the soup that alone would say the same; None where nobody asked.
    """

    path: str
    classes: tuple[str, ...]
    probabilities: tuple[float, ...]
    agreeing: tuple[str, ...] | None = None


@dataclass
class Classifier:
    """A soup made ready for some classes.

    Attributes:
        encoder: image and text towers.
        soup: the texts.
        class_names: C names.
        template: for these classes; the soup's own where None.
        bad: error text of each photo that could not be read, by path; filled by `predictions`.
    """

    encoder: Encoder
    soup: Soup
    class_names: Sequence[str]
    template: str | None = None
    bad: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        encoder = self.encoder
        texts = PromptEncoder(encoder.model, encoder.tokenizer, device=encoder.device, dtype=encoder.dtype)
        template = self.template or self.soup.template
        self.members, self.centroids = soup_features(
            self.soup, template=template, class_names=self.class_names, encoder=texts
        )  # (M, C, D), (C, D)
        scale = getattr(encoder.model, "logit_scale", None)
        self.logit_scale = float(scale.detach().exp()) if isinstance(scale, Tensor) else LOGIT_SCALE

    def predictions(self, paths: Sequence[str], *, top: int, explain: bool, batch_size: int) -> Iterator[Prediction]:
        """Classify photos in order; those that cannot be read are left out and noted in `bad`.

        Args:
            paths: photos.
            top: classes to name for each, at most.
            explain: whether to say which members agree.
            batch_size: photos in one forward pass.
        """
        at_once = self.encoder.images_at_once(batch_size)
        decoded = batches(paths, transform=self.encoder.preprocess, batch_size=at_once, on_bad_image="skip")
        with progress(label="classify", total=len(paths), unit="photo") as bar:
            for batch in decoded:
                done = len(batch.positions) + len(batch.bad)
                self.bad |= {paths[position]: text for position, text in batch.bad.items()}
                if len(batch.positions):
                    features = self.encoder.encode_images(batch.pixels)
                    chosen = [paths[position] for position in batch.positions.tolist()]
                    yield from self._of(chosen, features, top=top, explain=explain)
                bar.update(done)

    def _of(self, paths: Sequence[str], features: Tensor, *, top: int, explain: bool) -> Iterator[Prediction]:
        scores = features @ self.centroids.T  # (B, C)
        chances, order = (self.logit_scale * scores).softmax(dim=1).sort(dim=1, descending=True, stable=True)
        votes = torch.einsum("bd,mcd->bmc", features, self.members).argmax(dim=2) if explain else None  # (B, M)
        for i, path in enumerate(paths):
            labels = order[i, :top].tolist()
            agreeing = None
            if votes is not None:
                same = (votes[i] == labels[0]).tolist()
                agreeing = tuple(text for text, yes in zip(self.soup.texts, same, strict=True) if yes)
            names = tuple(self.class_names[label] for label in labels)
            yield Prediction(path, names, tuple(chances[i, :top].tolist()), agreeing)
