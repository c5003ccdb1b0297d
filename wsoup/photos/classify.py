"""Photos to their most probable classes, with a soup or a head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from wsoup.api.model import checked_logit_scale
from wsoup.core.autoclip import AutoClip
from wsoup.core.class_texts import normalize
from wsoup.core.member import Member
from wsoup.core.modes import Mode
from wsoup.core.soup import Soup
from wsoup.evaluate.baselines import ensemble_prompts
from wsoup.heads.head import Head
from wsoup.heads.zero_shot import class_texts, member_texts, prompt_texts, soup_texts
from wsoup.images.features import encode_files
from wsoup.photos.adaptation import adapted_to
from wsoup.photos.estimation import Adapted
from wsoup.photos.files import Photo
from wsoup.runtime.progress import counting
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder
from wsoup.towers.models import ensemble_templates

BUILT_IN = ("class_name", "templates")
"""Texts that need no soup file: the class name alone, and OpenAI's 80 templates."""
AT_ONCE = 4096
"""Photos whose probabilities are sorted together."""


def built_in_texts(name: str, *, class_names: Sequence[str], template: str, encoder: Encoder) -> Tensor:
    """Class texts of `BUILT_IN`: (C, D) on the CPU."""
    texts = PromptEncoder.of(encoder)
    if name == "class_name":
        soup = Soup("class_name", 0, template, encoder.id, (Member(""),))
        return class_texts(soup, template=template, class_names=class_names, text_encoder=texts)
    prompts = ensemble_prompts(template, class_names=class_names, templates=ensemble_templates())
    return prompt_texts(prompts, text_encoder=texts)


def built_in_members(name: str, *, class_names: Sequence[str], template: str, encoder: Encoder) -> Tensor:
    """Each text of `BUILT_IN` by itself: (M, C, D)."""
    texts = PromptEncoder.of(encoder)
    if name == "class_name":
        soup = Soup("class_name", 0, template, encoder.id, (Member(""),))
        return member_texts(soup, template=template, class_names=class_names, text_encoder=texts)
    by_class = ensemble_prompts(template, class_names=class_names, templates=ensemble_templates())
    return torch.stack([texts.encode(prompts).clone() for prompts in by_class], dim=1)


@dataclass(frozen=True)
class Prediction:
    """The answer for one photo.

    Attributes:
        photo: the photo.
        classes, probabilities: the most probable classes, best first; empty if the photo could not be read.
        problem: why it could not be read, or "".
    """

    photo: Photo
    classes: Sequence[str] = ()
    probabilities: Sequence[float] = ()
    problem: str = ""

    @property
    def right(self) -> bool | None:
        """Whether the first class is the photo's label; None without a label or an answer."""
        if self.photo.label is None or not self.classes:
            return None
        return self.photo.label == self.classes[0]


@dataclass(frozen=True)
class Classifier:
    """A soup or a head, ready for image features.

    Attributes:
        class_names: C names.
        weights: (D, C).
        logit_scale: factor of the logits f W.
        made_of: where it comes from, as JSON values.
    """

    class_names: Sequence[str]
    weights: Tensor
    logit_scale: float
    made_of: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of_soup(
        cls, soup: Soup, *, class_names: Sequence[str], encoder: Encoder, template: str | None, mode: Mode
    ) -> Classifier:
        """Classifier of a soup; arguments as `Soup.classifier`."""
        template = template or soup.template
        text_encoder = PromptEncoder.of(encoder)
        texts = soup_texts(soup, template=template, class_names=class_names, text_encoder=text_encoder)
        made_of = {"mode": mode, "template": template, "soup": soup.as_json()}
        return cls.of_texts(texts.classifier(mode), class_names=class_names, encoder=encoder, **made_of)

    @classmethod
    def of_texts(cls, weights: Tensor, *, class_names: Sequence[str], encoder: Encoder, **made_of: Any) -> Classifier:
        """Classifier of class texts (C, D)."""
        made_of |= {"encoder": dict(encoder.id), "preprocessing": dict(encoder.preprocessing)}
        return cls(class_names, weights.T.cpu(), checked_logit_scale(encoder.model), made_of)

    @classmethod
    def of_head(cls, head: Head) -> Classifier:
        """Classifier of a head, for the head's own classes."""
        made_of = {"kind": head.kind, "template": head.template, "soup": head.soup.as_json()}
        made_of |= {"encoder": dict(head.encoder), "preprocessing": dict(head.soup.preprocessing)}
        return cls(head.class_names, head.classifier, 1 / head.temperature, made_of)

    def logits_of(self, features: Tensor) -> Tensor:
        """(N, D) of an encoder -> (N, C)."""
        return self.logit_scale * features @ self.weights

    def answers(
        self, photos: Sequence[Photo], features: Tensor, *, top: int, by: Adapted | None = None
    ) -> Iterator[Prediction]:
        """The `top` classes of photos whose features (N, D) are known, by this classifier or what adapted it."""
        predicting = by or self
        for start in range(0, len(photos), AT_ONCE):
            end = start + AT_ONCE
            probabilities = predicting.logits_of(features[start:end]).softmax(dim=1)
            # Stable, so that the lowest label comes first among equals, as with `argmax`.
            ranked, order = probabilities.sort(dim=1, descending=True, stable=True)
            best_labels = order[:, :top].tolist()
            best_probabilities = ranked[:, :top].tolist()
            for photo, labels, chances in zip(photos[start:end], best_labels, best_probabilities, strict=True):
                names = [self.class_names[label] for label in labels]
                yield Prediction(photo, names, chances)

    def predictions(
        self, photos: Sequence[Photo], *, encoder: Encoder, top: int, adapt: bool
    ) -> tuple[list[Prediction], str]:
        """Classify photos.

        Args:
            photos: N photos.
            encoder: of the images.
            top: number of classes per photo.
            adapt: whether to adapt to these photos.

        Returns:
            N predictions in order, and the result of the adaptation in words, or "".
        """
        by_position = {i: Prediction(photo, problem=photo.problem) for i, photo in enumerate(photos) if photo.problem}
        to_read = [i for i in range(len(photos)) if i not in by_position]
        with counting(label="classify", total=len(to_read), initial=0, unit="photo"):
            encoded = encode_files(
                {"encoder": encoder},
                paths=[photos[i].path for i in to_read],
                digests=None,
                batch_size=64,
                on_bad_image="skip",
            )
        for i, why in encoded.skipped.items():
            by_position[to_read[i]] = Prediction(photos[to_read[i]], problem=why)
        readable = [to_read[i] for i in encoded.positions.tolist()]
        adapted = None
        note = ""
        if readable:
            features = torch.from_numpy(encoded.features["encoder"][:])
            if adapt:
                class_texts = normalize(self.weights.T).T
                adapted = adapted_to(features, texts=class_texts, logit_scale=self.logit_scale)
                note = adapted.note
            answers = self.answers([photos[i] for i in readable], features, top=top, by=adapted)
            by_position.update(zip(readable, answers, strict=True))
        # Every photo that comes in goes out, in its place, read or not.
        return [by_position[i] for i in range(len(photos))], note


@dataclass(frozen=True)
class WeighedClassifier(Classifier):
    """A classifier that weighs its texts for each photo, as AutoCLIP does (`wsoup.core.autoclip`).

    Attributes:
        members: (M, C, D) class texts with each member, on the CPU; `weights` are their centroids.
    """

    members: Tensor = field(kw_only=True)

    @classmethod
    def of_members(
        cls, members: Tensor, *, class_names: Sequence[str], encoder: Encoder, **made_of: Any
    ) -> WeighedClassifier:
        """Classifier of the texts (M, C, D) of C classes."""
        made_of |= {"encoder": dict(encoder.id), "preprocessing": dict(encoder.preprocessing)}
        members = members.cpu()
        return cls(
            class_names, AutoClip(members).classifier, checked_logit_scale(encoder.model), made_of, members=members
        )

    def logits_of(self, features: Tensor) -> Tensor:
        """(N, D) of an encoder -> (N, C)."""
        return self.logit_scale * AutoClip(self.members).scores_of(features)
