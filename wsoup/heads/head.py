"""The `Head` value: a classifier of image features from few-shot images, with the soup of its texts."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from wsoup.base.arguments import Place, Share, at_the_door
from wsoup.base.errors import MismatchError, ParamsError
from wsoup.core.arrays import rows
from wsoup.disk import store
from wsoup.heads import file
from wsoup.heads.choose import choose, threshold
from wsoup.heads.fewshot import FewShot
from wsoup.heads.kinds import ARRAYS, KINDS, Fitted
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
        kind: prototypes, tip, gda or ridge; see `wsoup.heads.kinds`.
        setting: its hyperparameters by name.
        fitted: what it computes, float32.
        temperature: divisor of the logits before the softmax.
        confidences, right: (m,) largest probability of each left-out image, and whether its prediction was right.
        n_correct, n_images: counts of the left-out images.
        class_names: C names in label order.
        template: prompt template of the class texts.
        logit_scale: s.
        encoder: id of the encoder of its features.
        soup: where the texts come from; of kind ``class_name`` if there was none.
        note: what could not be chosen or was dropped, or "".
    """

    kind: str
    setting: Mapping[str, float]
    fitted: Fitted
    temperature: float
    confidences: Tensor
    right: Tensor
    n_correct: int
    n_images: int
    class_names: Sequence[str]
    template: str
    logit_scale: float
    encoder: Mapping[str, Any]
    soup: Soup
    note: str = ""

    @property
    def classifier(self) -> Tensor:
        """W (D, C) float32 of a linear head, which predicts `(features @ head.classifier + head.bias).argmax(1)`.

        Raises:
            ParamsError: a tip or ridge head, which also has a kernel; use `predict`.
        """
        if not self.fitted.is_linear:
            raise ParamsError(f"a {self.kind} head is not a single matrix; use head.predict or head.predict_proba")
        return self.fitted.classifier

    @property
    def bias(self) -> Tensor:
        """b (C,) float32."""
        return self.fitted.bias

    def logits(self, features: Any) -> Tensor:
        """(N, D) L2-normalised, torch or NumPy -> (N, C) float32; MismatchError if D differs."""
        return self.fitted.logits(rows(features, name="features", size=len(self.fitted.classifier)).cpu())

    def predict_proba(self, features: Any) -> Tensor:
        """Probabilities at the head's temperature: (N, D) -> (N, C) float32."""
        return (self.logits(features) / self.temperature).softmax(dim=1)

    @at_the_door
    def predict(self, features: Any, *, at_least: AtLeast = 0.0) -> Tensor:
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
            **{name: getattr(self.fitted, name) for name in ARRAYS},
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
        if metadata["kind"] not in KINDS or {*setting} != {f.name for f in dataclasses.fields(KINDS[metadata["kind"]])}:
            raise MismatchError(f"{path} is not a head: its kind is unknown or its setting is of another kind")
        soup = Soup.from_json(metadata["soup"], origin=path)
        if encoder is not None:
            store.check_encoder(metadata["encoder"], expected=encoder, where=path)
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        return cls(
            setting=setting,
            fitted=Fitted(
                **{name: tensors[name].float() for name in ARRAYS}, sharpness=float(setting.get("sharpness", 0.0))
            ),
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
    kinds: Sequence[str],
    soup: Soup,
    template: str,
    class_names: Sequence[str],
    encoder: Mapping[str, Any],
    note: str,
) -> Head:
    """Choose a kind and a setting and fit them.

    Args:
        shots: the few-shot images.
        kinds: of `KINDS`, to choose from.
        soup, template, class_names, encoder: where the texts of `shots` come from.
        note: what was dropped before, or "".
    """
    chosen = choose(shots, kinds=kinds)
    return Head(
        kind=chosen.kind,
        setting=dataclasses.asdict(chosen.setting),
        fitted=chosen.setting.fit(shots).to(torch.float32),
        temperature=chosen.temperature,
        confidences=chosen.confidences,
        right=chosen.right,
        n_correct=chosen.n_correct,
        n_images=chosen.n_images,
        class_names=tuple(class_names),
        template=template,
        logit_scale=shots.logit_scale,
        encoder=encoder,
        soup=soup,
        note="; ".join(part for part in (note, chosen.note) if part),
    )
