"""A head: a classifier of image features for the classes it was made of, with the soup that its texts came from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from wsoup.core.arguments import Place, Share, at_the_door
from wsoup.core.arrays import rows
from wsoup.core.disk import store
from wsoup.core.errors import MismatchError, ParamsError
from wsoup.heads import file
from wsoup.heads.calibrate import threshold
from wsoup.heads.choose import choose
from wsoup.heads.fewshot import FewShot
from wsoup.heads.fitted import Fitted
from wsoup.heads.kinds import KINDS
from wsoup.soup.soup import Soup

PRECISION = 0.95
"""Of the abstention threshold that a file holds."""
ABSTAINED = -1
AtLeast = Annotated[float, Field(ge=0)]


@dataclass(frozen=True)
class Head:
    """A classifier made of a few labelled images and the class texts of a soup.

    Attributes:
        kind: prototypes, tip, gda or ridge; see `wsoup.heads.kinds`.
        setting: its hyperparameters by name.
        fitted: what it computes, float32.
        temperature: that logits are divided by before they are probabilities.
        confidences, right: (m,) of the images left out once each: the largest probability, and whether it was right.
        n_correct, n_images: counts of the images left out.
        class_names: C names in label order.
        template: that the class texts were made with.
        logit_scale: s.
        encoder: id of the encoder that its features are of.
        soup: whose texts these are; of kind ``class_name`` where there was none.
        note: what could not be chosen, or was left out; "" where nothing.
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
        """W (D, C) float32 of a linear head: `(features @ head.classifier + head.bias).argmax(1)` are predictions.

        Raises:
            ParamsError: a tip or ridge head, which also looks at the few-shot images; use `predict`.
        """
        if not self.fitted.is_linear:
            raise ParamsError(f"a {self.kind} head is no single matrix; use head.predict or head.predict_proba")
        return self.fitted.classifier

    @property
    def bias(self) -> Tensor:
        """b (C,) float32."""
        return self.fitted.bias

    def logits(self, features: Any) -> Tensor:
        """(N, D) L2-normalised, of torch or NumPy -> (N, C) float32; MismatchError where D is another."""
        return self.fitted.logits(rows(features, name="features", size=len(self.fitted.classifier)).cpu())

    def predict_proba(self, features: Any) -> Tensor:
        """Probabilities at the head's temperature: (N, D) -> (N, C) float32."""
        return (self.logits(features) / self.temperature).softmax(dim=1)

    @at_the_door
    def predict(self, features: Any, *, at_least: AtLeast = 0.0) -> Tensor:
        """Labels (N,) int64; -1 where no probability reaches `at_least`, for example `head.threshold()`."""
        confidences, labels = self.predict_proba(features).max(dim=1)
        return torch.where(confidences >= at_least, labels, ABSTAINED)

    @at_the_door
    def threshold(self, precision: Share = PRECISION) -> float:
        """The least probability from which answers were right that often on left-out images; infinity if none was.

        See `wsoup.heads.calibrate.threshold`: at least 19 left-out images have to be right for 0.95.
        """
        return threshold(self.confidences, self.right, precision=precision)

    @at_the_door
    def save(self, path: Place) -> None:
        """Write it as safetensors, whole or not at all, the soup in it."""
        store.write_bytes(path, self.as_bytes())

    def as_bytes(self) -> bytes:
        """What `save` writes."""
        arrays = {
            **{name: getattr(self.fitted, name) for name in ("classifier", "bias", "support", "weights")},
            "confidences": self.confidences,
            "right": self.right,
            "temperature": torch.tensor([self.temperature], dtype=torch.float64),
            "threshold": torch.tensor([self.threshold()], dtype=torch.float64),
        }
        about = {
            **{name: getattr(self, name) for name in file.PLAIN},
            "setting": dict(self.setting),
            "class_names": list(self.class_names),
            "encoder": dict(self.encoder),
            "soup": self.soup.as_json(),
        }
        return file.packed({name: array.numpy() for name, array in arrays.items()}, about=about)

    @classmethod
    @at_the_door
    def load(cls, path: Place, *, encoder: Mapping[str, Any] | None = None) -> Self:
        """Read what `save` wrote.

        Args:
            path: a head file.
            encoder: the id that its features must be of; None takes any.

        Raises:
            MissingError: no such file.
            MismatchError: damaged, no head, or a head of another encoder.
        """
        arrays, about = file.read(path)
        setting = about["setting"]
        if about["kind"] not in KINDS or {*setting} != {f.name for f in dataclasses.fields(KINDS[about["kind"]])}:
            raise MismatchError(f"{path} is no head: kind and setting are of none that there is")
        soup = Soup.from_json(about["soup"], origin=path)
        if encoder is not None:
            store.check_encoder(about["encoder"], expected=encoder, where=path)
        parts = {name: torch.from_numpy(np.array(arrays[name])) for name in file.ARRAYS}
        return cls(
            setting=setting,
            fitted=Fitted(
                parts["classifier"].float(),
                parts["bias"].float(),
                parts["support"].float(),
                parts["weights"].float(),
                sharpness=float(setting.get("sharpness", 0.0)),
            ),
            temperature=float(parts["temperature"][0]),
            confidences=parts["confidences"],
            right=parts["right"],
            class_names=tuple(about["class_names"]),
            encoder=about["encoder"],
            soup=soup,
            **{name: about[name] for name in file.PLAIN},
        )


def made(
    shots: FewShot,
    *,
    kinds: Sequence[str],
    soup: Soup,
    template: str,
    class_names: Sequence[str],
    encoder: Mapping[str, Any],
    note: str,
) -> Head:
    """The best head of some kinds.

    Args:
        shots: all that may be seen.
        kinds: of `KINDS`.
        soup, template, class_names, encoder: what the texts of `shots` were made of, and with.
        note: what was said before.
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
