"""The `Head` value: a classifier of image features from few-shot images, with the soup of its texts."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from wsoup.base.arguments import Place, Share, at_the_door, usual_torch
from wsoup.base.errors import MismatchError
from wsoup.core.arrays import rows
from wsoup.disk import store
from wsoup.heads import file
from wsoup.heads.choose import choose, threshold
from wsoup.heads.kinds import PARTS, FewShot
from wsoup.runtime import threads
from wsoup.soup.soup import Soup

PRECISION = 0.95
"""Precision of the abstention threshold stored in a file."""
ABSTAINED = -1
"""Label of an image that is abstained from."""
AtLeast = Annotated[float, Field(ge=0)]


@dataclass(frozen=True)
class Head:
    """A classifier fitted to a few labelled images and the class texts of a soup.

    Attributes:
        kind: prototypes, ridge or both; see `wsoup.heads.kinds`.
        setting: its hyperparameters by name.
        classifier: W (D, C) float32; logits are `features @ head.classifier`.
        temperature: divisor of the logits before the softmax.
        confidences, right: (m,) largest probability of each left-out image, and whether its prediction was right.
        class_names: C names in label order.
        template: prompt template of the class texts.
        logit_scale: s.
        encoder: id of the encoder of its features.
        soup: where the texts come from; of kind ``class_name`` if there was none.
        note: what could not be chosen or was dropped, or "".
    """

    kind: str
    setting: Mapping[str, float]
    classifier: Tensor
    temperature: float
    confidences: Tensor
    right: Tensor
    class_names: Sequence[str]
    template: str
    logit_scale: float
    encoder: Mapping[str, Any]
    soup: Soup
    note: str = ""

    @property
    def n_correct(self) -> int:
        """Left-out images that were right."""
        return int(self.right.sum())

    @property
    def n_images(self) -> int:
        """Left-out images."""
        return len(self.right)

    @usual_torch()
    def logits(self, features: object) -> Tensor:
        """(N, D) L2-normalised, torch or NumPy -> (N, C) float32; MismatchError if D differs."""
        return rows(features, name="features", size=len(self.classifier)).cpu() @ self.classifier

    def predict_proba(self, features: object) -> Tensor:
        """Probabilities at the head's temperature: (N, D) -> (N, C) float32."""
        return (self.logits(features) / self.temperature).softmax(dim=1)

    @at_the_door
    def predict(self, features: object, *, at_least: AtLeast = 0.0) -> Tensor:
        """Labels (N,) int64; -1 where no probability reaches `at_least`, such as `head.threshold()`."""
        confidences, labels = self.predict_proba(features).max(dim=1)
        return torch.where(confidences >= at_least, labels, ABSTAINED)

    @at_the_door
    def threshold(self, precision: Share = PRECISION) -> float:
        """The smallest probability from which predictions on left-out images reach a precision; infinity if none does.

        See `wsoup.heads.choose.threshold`: 0.95 takes at least 19 left-out images that are right.
        """
        return threshold(self.confidences, self.right, precision=precision)

    @at_the_door
    def save(self, path: Place) -> None:
        """Write a safetensors file, atomically, with the soup in it."""
        store.write_bytes(path, self.as_bytes())

    def as_bytes(self) -> bytes:
        """The bytes that `save` writes."""
        arrays = {
            "classifier": self.classifier,
            "confidences": self.confidences,
            "right": self.right,
            "temperature": torch.tensor([self.temperature], dtype=torch.float64),
            "threshold": torch.tensor([self.threshold()], dtype=torch.float64),
        }
        metadata = {
            **{name: getattr(self, name) for name in file.PLAIN},
            "setting": dict(self.setting),
            "class_names": list(self.class_names),
            "encoder": dict(self.encoder),
            "soup": self.soup.as_json(),
        }
        return file.pack({name: array.numpy() for name, array in arrays.items()}, metadata=metadata)

    @classmethod
    @at_the_door
    def load(cls, path: Place, *, encoder: Mapping[str, Any] | None = None) -> Self:
        """Read a head file.

        Args:
            path: a head file.
            encoder: id that its encoder must have; None takes any.

        Raises:
            MissingError: no such file.
            MismatchError: damaged, not a head, or a head of another encoder.
        """
        arrays, metadata = file.read(path)
        setting = metadata["setting"]
        if {*setting} != {field.name for part in PARTS.get(metadata["kind"], ()) for field in dataclasses.fields(part)}:
            raise MismatchError(f"{path} is not a head: its kind is unknown or its setting is of another kind")
        soup = Soup.from_json(metadata["soup"], origin=path)
        if encoder is not None:
            store.check_encoder(metadata["encoder"], expected=encoder, where=path)
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        return cls(
            setting=setting,
            classifier=tensors["classifier"].float(),
            temperature=float(tensors["temperature"][0]),
            confidences=tensors["confidences"],
            right=tensors["right"],
            class_names=tuple(metadata["class_names"]),
            encoder=metadata["encoder"],
            soup=soup,
            **{name: metadata[name] for name in file.PLAIN},
        )


def best_head(
    shots: FewShot,
    *,
    kind: str,
    soup: Soup,
    template: str,
    class_names: Sequence[str],
    encoder: Mapping[str, object],
    note: str,
) -> Head:
    """Choose settings and fit them.

    Args:
        shots: the few-shot images.
        kind: of `wsoup.heads.kinds.PARTS`.
        soup, template, class_names, encoder: where the texts of `shots` come from.
        note: what was dropped before, or "".
    """
    with threads.one_thread_for(shots.features.numel() * shots.n_classes):
        chosen = choose(shots, kind=kind)
    return Head(
        kind=kind,
        setting=chosen.setting,
        classifier=chosen.classifier.float().contiguous(),
        temperature=chosen.temperature,
        confidences=chosen.confidences,
        right=chosen.right,
        class_names=tuple(class_names),
        template=template,
        logit_scale=shots.logit_scale,
        encoder=encoder,
        soup=soup,
        note="; ".join(part for part in (note, chosen.note) if part),
    )
