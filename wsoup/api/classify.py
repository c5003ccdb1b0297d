"""Photos to their most probable classes, with a soup or a head."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from wsoup.adaptation import em
from wsoup.api.photos import Photo
from wsoup.core.scoring import normalize
from wsoup.evaluate.baselines import ensemble_prompts
from wsoup.heads.head import Head
from wsoup.images.decode import batches
from wsoup.runtime.progress import progress
from wsoup.soup.member import Member
from wsoup.soup.soup import Soup
from wsoup.texts.classes import class_texts, logit_scale_of, soup_features
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder, ensemble_templates
from wsoup.towers.images import encode_pixels

BUILT_IN = ("class_name", "templates")
"""Texts that need no soup file: the class name alone, and OpenAI's 80 templates."""


def built_in_texts(name: str, *, class_names: Sequence[str], template: str, encoder: Encoder) -> Tensor:
    """Class texts of `BUILT_IN`: (C, D) on the CPU."""
    texts = PromptEncoder.of(encoder)
    if name == "class_name":
        soup = Soup("class_name", 0, template, encoder.id, (Member(""),))
        return class_texts(soup, template=template, class_names=class_names, encoder=texts)
    prompts = ensemble_prompts(template, class_names=class_names, templates=ensemble_templates())
    means = [texts.encode(of_class).mean(dim=0) for of_class in progress(prompts, label="templates", unit="class")]
    return normalize(torch.stack(means)).cpu()


@dataclass(frozen=True)
class Prediction:
    """The answer for one photo.

    Attributes:
        photo: the photo.
        classes, probabilities: the most probable classes, best first; empty if the photo could not be read.
        status: ``ok``, ``unsure`` (below the threshold) or ``not read``.
    """

    photo: Photo
    classes: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    status: str = "ok"

    @property
    def right(self) -> bool | None:
        """Whether the first class is the photo's label; None without a label or an answer."""
        return self.photo.label == self.classes[0] if self.photo.label is not None and self.classes else None


@dataclass
class Classifier:
    """A soup or a head, ready for image features.

    Attributes:
        class_names: C names.
        weights: (D, C).
        logit_scale: factor of the logits f weights.
        made_of: where it comes from, as JSON values.
        adapted: what predicts instead, after adaptation.
        note: result of the adaptation.
        bad: what is wrong with each photo that could not be read, by path; filled by `predictions`.
    """

    class_names: Sequence[str]
    weights: Tensor
    logit_scale: float
    made_of: Mapping[str, object] = field(default_factory=dict)
    adapted: em.Adapted | None = None
    note: str = ""
    bad: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_soup(
        cls, soup: Soup, *, class_names: Sequence[str], encoder: Encoder, template: str | None, mode: str
    ) -> Classifier:
        """Classifier of a soup; arguments as `Soup.classifier`."""
        template = template or soup.template
        _, weights = soup_features(
            soup, template=template, class_names=class_names, encoder=PromptEncoder.of(encoder), mode=mode
        )
        made_of = {"mode": mode, "template": template, "soup": soup.as_json()}
        return cls.of_texts(weights, class_names=class_names, encoder=encoder, **made_of)

    @classmethod
    def of_texts(cls, weights: Tensor, *, class_names: Sequence[str], encoder: Encoder, **made_of: Any) -> Classifier:
        """Classifier of class texts (C, D)."""
        made_of |= {"encoder": dict(encoder.id), "preprocessing": dict(encoder.preprocessing)}
        return cls(class_names, weights.T.cpu(), logit_scale_of(encoder.model), made_of)

    @classmethod
    def of_head(cls, head: Head) -> Classifier:
        """Classifier of a head, for the head's own classes."""
        made_of = {"kind": head.kind, "template": head.template, "soup": head.soup.as_json()}
        made_of |= {"encoder": dict(head.encoder), "preprocessing": dict(head.soup.preprocessing)}
        return cls(head.class_names, head.classifier, 1 / head.temperature, made_of)

    def predictions(
        self, photos: Sequence[Photo], *, encoder: Encoder, top: int, threshold: float, adapt: bool
    ) -> Generator[Prediction]:
        """Classify photos in order; problems of photos that cannot be read go to `bad`.

        Args:
            photos: the photos.
            encoder: of the images.
            top: number of classes per photo.
            threshold: photos below this probability are unsure.
            adapt: whether to adapt to these photos, which are then all encoded before the first answer.
        """
        encoded: Iterable[tuple[list[int], Tensor, list[int]]]
        encoded = self._encoded([photo.path for photo in photos], encoder=encoder)
        if adapt:
            encoded = list(encoded)
            self._adapt([features for _, features, _ in encoded if len(features)])
        for positions, features, unreadable in encoded:
            batch = [photos[position] for position in positions]
            answers = self.answers(batch, features, top=top, threshold=threshold)
            predictions = dict(zip(positions, answers, strict=True))
            predictions |= {position: Prediction(photos[position], status="not read") for position in unreadable}
            yield from (predictions[position] for position in sorted(predictions))

    def answers(
        self, photos: Sequence[Photo], features: Tensor, *, top: int, threshold: float = 0.0
    ) -> Iterator[Prediction]:
        """Classify photos whose features (B, D) are known; arguments as `predictions`."""
        if not photos:
            return
        logits = self.logit_scale * features @ self.weights  # (B, C)
        if self.adapted is not None:
            logits = self.adapted.logits(features)
        probabilities, order = logits.softmax(dim=1).sort(dim=1, descending=True, stable=True)
        for i, photo in enumerate(photos):
            names = tuple(self.class_names[label] for label in order[i, :top].tolist())
            best = tuple(probabilities[i, :top].tolist())
            yield Prediction(photo, names, best, "unsure" if best[0] < threshold else "ok")

    def _encoded(self, paths: Sequence[str], *, encoder: Encoder) -> Iterator[tuple[list[int], Tensor, list[int]]]:
        """For each batch: positions of readable photos, their features (B, D), positions of the others."""
        decoded = batches(
            paths, transform=encoder.preprocess, batch_size=encoder.images_at_once(64), on_bad_image="skip"
        )
        with progress(label="classify", total=len(paths), unit="photo") as bar:
            for batch in decoded:
                self.bad |= {paths[position]: error.args[0] for position, error in batch.bad.items()}
                positions = batch.positions
                features = encode_pixels(encoder, batch.pixels).cpu() if positions else torch.empty(0, 0)
                yield positions, features, [*batch.bad]
                bar.update(len(positions) + len(batch.bad))

    def _adapt(self, features: Sequence[Tensor]) -> None:
        """Adapt the classifier to these features, unless the texts' own is safer."""
        if features:
            texts = normalize(self.weights.T).T
            self.adapted = em.adapt(torch.cat([*features]), texts=texts, logit_scale=self.logit_scale)
            self.note = self.adapted.note or f"adapted to {sum(map(len, features))} photos"
