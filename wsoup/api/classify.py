"""Photos one batch after the other -> the most probable classes of each, and which members of the soup agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from wsoup.adapt import kinds as adapting
from wsoup.api.photos import Photo
from wsoup.core.errors import ParamsError
from wsoup.core.scoring import normalize
from wsoup.heads.fitted import Fitted
from wsoup.heads.head import Head
from wsoup.images.decode import REMEDY, batches
from wsoup.runtime.progress import progress
from wsoup.soup.soup import Soup
from wsoup.texts.classes import logit_scale_of, soup_features
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder


@dataclass(frozen=True)
class Prediction:
    """What is seen in one photo.

    Attributes:
        photo: the photo.
        classes, probabilities: the most probable classes, best first; none where it could not be read.
        agreeing: members of the soup that alone would say the same; None where nobody asked.
        status: ``ok``, ``unsure`` (less probable than was asked for) or ``not read``.
    """

    photo: Photo
    classes: tuple[str, ...]
    probabilities: tuple[float, ...]
    agreeing: tuple[str, ...] | None = None
    status: str = "ok"

    @property
    def right(self) -> bool | None:
        """Whether the first class is the photo's label; None where it has none, or was not read."""
        return self.photo.label == self.classes[0] if self.photo.label is not None and self.classes else None


@dataclass
class Classifier:
    """A soup or a head made ready for photos.

    Attributes:
        encoder: image and text towers.
        class_names: C names.
        fitted: scores of image features.
        logit_scale: that they are multiplied by before they are probabilities.
        texts, members: of the soup, M and (M, C, D), where it is known which member says what.
        note: of the adaptation, what it did and why.
        bad: error text of each photo that could not be read, by path; filled by `predictions`.
    """

    encoder: Encoder
    class_names: Sequence[str]
    fitted: Fitted
    logit_scale: float
    texts: Sequence[str] = ()
    members: Tensor | None = None
    note: str = ""
    bad: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_soup(
        cls, soup: Soup, *, encoder: Encoder, class_names: Sequence[str], template: str | None, mode: str
    ) -> Classifier:
        """A soup for any classes; arguments as `Soup.classifier`."""
        texts = PromptEncoder(encoder.model, encoder.tokenizer, device=encoder.device, dtype=encoder.dtype)
        members, weights = soup_features(
            soup, template=template or soup.template, class_names=class_names, encoder=texts, mode=mode
        )  # (M, C, D), (C, D)
        fitted, scale = Fitted.linear(weights.T.cpu()), logit_scale_of(encoder.model)
        return cls(encoder, class_names, fitted, scale, texts=soup.texts, members=members.cpu())

    @classmethod
    def of_head(cls, head: Head, *, encoder: Encoder) -> Classifier:
        """A head, for the classes that it was made of."""
        return cls(encoder, head.class_names, head.fitted, 1 / head.temperature)

    def predictions(
        self, photos: Sequence[Photo], *, top: int, threshold: float, explain: bool, batch_size: int, adapt: str | None
    ) -> Iterator[Prediction]:
        """Classify photos in order; what is wrong with those that cannot be read stands in `bad`.

        Args:
            photos: which.
            top: classes to name for each, at most.
            threshold: below this probability a photo is unsure.
            explain: whether to say which members agree.
            batch_size: photos in one forward pass.
            adapt: a kind of adaptation to these very photos, which are then all encoded before the first is answered;
                None for none.

        Raises:
            ParamsError: adaptation of a head.
        """
        if adapt is not None and self.members is None:
            raise ParamsError(
                "--adapt is for a soup: a head knows its classes from their photos; leave one of them out"
            )
        encoded = self._encoded([photo.path for photo in photos], batch_size=batch_size)
        if adapt is not None:
            encoded = iter(every := list(encoded))
            self._adapt([features for _, features, _ in every if len(features)], kind=adapt)
        for positions, features, bad in encoded:
            read = self.answers([photos[place] for place in positions], features, top=top, explain=explain)
            answers = dict(zip(positions, read, strict=True))
            for place in sorted([*positions, *bad]):
                answer = answers.get(place, Prediction(photos[place], (), (), () if explain else None, "not read"))
                unsure = answer.classes and answer.probabilities[0] < threshold
                yield replace(answer, status="unsure") if unsure else answer

    def _encoded(self, paths: Sequence[str], *, batch_size: int) -> Iterator[tuple[list[int], Tensor, list[int]]]:
        """Batch by batch: positions of the photos that were read, their features (B, D), positions of the others."""
        at_once = self.encoder.images_at_once(batch_size)
        decoded = batches(paths, transform=self.encoder.preprocess, batch_size=at_once, on_bad_image="skip")
        with progress(label="classify", total=len(paths), unit="photo") as bar:
            for batch in decoded:
                self.bad |= {paths[position]: text.removesuffix(f"; {REMEDY}") for position, text in batch.bad.items()}
                positions = batch.positions.tolist()
                features = self.encoder.encode_images(batch.pixels).cpu() if positions else torch.empty(0, 0)
                yield positions, features, [*batch.bad]
                bar.update(len(positions) + len(batch.bad))

    def _adapt(self, features: Sequence[Tensor], *, kind: str) -> None:
        """Take the classifier that is adapted to all of these features, or leave the texts' own."""
        if features:
            texts = normalize(self.fitted.classifier.T).T
            made = adapting.adapt(torch.cat([*features]), texts=texts, logit_scale=self.logit_scale, kind=kind)
            self.fitted, self.logit_scale = Fitted.linear(made.classifier, made.bias), 1.0
            self.note = made.note or f"adapted to {sum(map(len, features))} photos ({kind})"

    def answers(self, photos: Sequence[Photo], features: Tensor, *, top: int, explain: bool) -> Iterator[Prediction]:
        """Photos whose features (B, D) are known; arguments as `predictions`."""
        if not photos:
            return
        logits = self.logit_scale * self.fitted.logits(features)  # (B, C)
        chances, order = logits.softmax(dim=1).sort(dim=1, descending=True, stable=True)
        votes = None
        if explain and self.members is not None:
            votes = torch.einsum("bd,mcd->bmc", features, self.members).argmax(dim=2)  # (B, M)
        for i, photo in enumerate(photos):
            labels = order[i, :top].tolist()
            agreeing = None
            if votes is not None:
                same = (votes[i] == labels[0]).tolist()
                agreeing = tuple(text for text, yes in zip(self.texts, same, strict=True) if yes)
            names = tuple(self.class_names[label] for label in labels)
            yield Prediction(photo, names, tuple(chances[i, :top].tolist()), agreeing)
