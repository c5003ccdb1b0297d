"""The `Head` value and its file: a classifier of image features from few-shot images, with the soup of its texts.

A file is safetensors with a checksum. It may come from anywhere, so all that it holds is validated.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
import torch
from pydantic import Field, InstanceOf
from torch import Tensor

from wsoup.base.arguments import Place, Share, at_the_door, checked_fields, usual_torch
from wsoup.base.arrays import Positive, unit_rows
from wsoup.base.errors import MismatchError, MissingError, one_line
from wsoup.core.soup import EncoderId, Soup, named
from wsoup.disk import checksums, store
from wsoup.disk.files import read_file
from wsoup.heads.calibration import threshold
from wsoup.heads.choose import choose
from wsoup.heads.fewshot import FewShot
from wsoup.heads.kinds import PARTS
from wsoup.runtime import threads

PRECISION = 0.95
"""Precision of the abstention threshold stored in a file."""
ABSTAINED = -1
"""Label of an image that is abstained from."""
LARGEST = 1 << 32
"""Largest head file, in bytes."""
PLAIN = ("kind", "template", "logit_scale", "note")
"""Texts and numbers in a file."""
AtLeast = Annotated[float, Field(ge=0)]
NotNegative = Annotated[float, Field(ge=0, lt=1e30)]
Line = Annotated[str, Field(max_length=10_000, pattern=r"^\P{Cc}*$")]
Lines = Annotated[tuple[Line, ...], Field(min_length=2, max_length=1_000_000)]


@checked_fields
@dataclass(frozen=True, repr=False)
class Head:
    """A classifier fitted to a few labelled images and the class texts of a soup.

    Attributes:
        kind: prototypes, ridge or both; see `wsoup.heads.kinds`.
        setting: its hyperparameters by name.
        classifier: W (D, C) float32; logits are `features @ head.classifier`.
        temperature: divisor of the logits before the softmax.
        confidences, right: (m,) largest probability of each left-out image, and whether its prediction was right.
        class_names: C names in label order; two classes may have one name.
        template: prompt template of the class texts.
        logit_scale: s.
        encoder: id of the encoder of its features.
        soup: where the texts come from; of kind ``class_name`` if there was none.
        note: what could not be chosen or was dropped, or "".
    """

    kind: Line
    setting: Mapping[str, NotNegative]
    classifier: Tensor
    temperature: Positive
    confidences: Tensor
    right: Tensor
    class_names: Lines
    template: Line
    logit_scale: Positive
    encoder: EncoderId
    soup: InstanceOf[Soup]
    note: Line = ""

    def __repr__(self) -> str:
        left_out = f"{self.n_correct} of {self.n_images} left-out images correct"
        about = [f"{self.kind} head", named(self.encoder), f"{len(self.class_names)} classes", left_out, self.note]
        return f"<{', '.join(filter(None, about))}>"

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
        """(N, D), torch or NumPy -> (N, C) float32; MismatchError if D differs.

        Features that are not L2-normalised are, with a warning: the temperature belongs to those of length 1.
        """
        checked_rows = unit_rows(features, name="features", size=len(self.classifier))
        return checked_rows.cpu() @ self.classifier

    def predict_proba(self, features: object) -> Tensor:
        """Probabilities at the head's temperature: (N, D) -> (N, C) float32."""
        return (self.logits(features) / self.temperature).softmax(dim=1)

    @at_the_door
    def predict(self, features: object, *, at_least: AtLeast = 0.0) -> Tensor:
        """Labels (N,) int64; -1 where no probability reaches `at_least`, such as `head.threshold()`."""
        probabilities = self.predict_proba(features)
        confidences, labels = probabilities.max(dim=1)
        return torch.where(confidences >= at_least, labels, ABSTAINED)

    @at_the_door
    def threshold(self, precision: Share = PRECISION) -> float:
        """The probability from which predictions reach a precision, by left-out images; infinity if they cannot tell.

        See `wsoup.heads.calibration.threshold`. The precision is that of photos like the labelled ones: in 240 folders
        of photographs with 1 to 16 photos a class, 98.3 % of the answers from 0.95 on were right there. In other styles
        fewer may be: 95.6 % on average, and below 90 % with one head in thirteen. 36 heads answered none, most of them
        of one photo a class: nothing can be left out there, so nothing is calibrated.
        """
        return threshold(self.confidences, self.right, precision=precision)

    @at_the_door
    def save(self, path: Place) -> None:
        """Write a safetensors file, atomically, with the soup in it."""
        store.write_bytes(path, self.as_bytes())

    def as_bytes(self) -> bytes:
        """The bytes that `save` writes."""
        arrays = {
            "classifier": self.classifier.numpy(),
            "confidences": self.confidences.numpy(),
            "right": self.right.numpy(),
            "temperature": np.array([self.temperature]),
            "threshold": np.array([self.threshold()]),
        }
        about = {name: getattr(self, name) for name in PLAIN}
        about["setting"] = dict(self.setting)
        about["class_names"] = list(self.class_names)
        about["encoder"] = dict(self.encoder)
        about["soup"] = self.soup.as_json()
        text = json.dumps(about, sort_keys=True, ensure_ascii=False)
        arrays["about"] = store.text_as_array(text)
        return store.pack_arrays({**arrays, "checksum": _checksum(arrays)})

    @classmethod
    @at_the_door
    def load(cls, path: Place, *, encoder: Mapping[str, object] | None = None) -> Self:
        """Read a head file.

        Args:
            path: a head file.
            encoder: id that its encoder must have; None takes any.

        Raises:
            MissingError: no such file.
            MismatchError: damaged, not a head, or a head of another encoder.
        """
        try:
            payload = read_file(str(path), largest=LARGEST)
            if payload.lstrip()[:1] == b"{":
                raise ValueError("it is JSON, such as a soup, which wsoup.Soup.load reads")
            head = cls._from(store.unpack_arrays(payload, origin=path))
        except MissingError:
            raise MissingError(f"{one_line(path)} does not exist; heads are made by wsoup.fit_head") from None
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise MismatchError(f"{one_line(path)} is not a head: {one_line(error, limit=300)}") from None
        if encoder is not None:
            step = "fit one for this encoder with wsoup.fit_head"
            store.check_encoder(head.encoder, expected=encoder, where=path, step=step)
        return head

    @classmethod
    def _from(cls, arrays: dict[str, np.ndarray]) -> Self:
        """The head of a file's arrays; ValueError, TypeError, LookupError or RecursionError if they are no head."""
        if not np.array_equal(arrays.pop("checksum"), _checksum(arrays)):
            raise ValueError("it is damaged: its checksum does not match its content")
        about = json.loads(store.text_of_array(arrays.pop("about")))
        about["soup"] = Soup.from_json(about["soup"], origin="its soup")
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        # The fields of `Head` validate themselves; what they say of one another is compared below.
        head = cls(
            **about,
            classifier=tensors["classifier"].float(),
            temperature=arrays["temperature"].item(),
            confidences=tensors["confidences"],
            right=tensors["right"],
        )
        hyperparameters: set[str] = set()
        for part in PARTS.get(head.kind, ()):
            hyperparameters |= {field.name for field in dataclasses.fields(part)}
        if set(head.setting) != hyperparameters:
            raise ValueError("its kind is unknown or its setting is of another kind")
        shapes = {
            "classifier": (len(head.classifier), len(head.class_names)),
            "confidences": (head.n_images,),
            "right": (head.n_images,),
        }
        for name, shape in shapes.items():
            array = arrays[name]
            is_boolean = array.dtype.kind == "b"
            has_right_kind = is_boolean == (name == "right")
            if array.shape != shape or not has_right_kind or not np.isfinite(array).all():
                raise ValueError(f"{name} is {array.dtype} {array.shape}; expected {shape}, and finite numbers")
        return head


def best_head(
    shots: FewShot,
    *,
    kind: str,
    soup: Soup,
    template: str,
    class_names: Sequence[str],
    encoder: EncoderId,
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
    notes = [part for part in (note, chosen.note) if part]
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
        note="; ".join(notes),
    )


def _checksum(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.frombuffer(checksums.of_arrays(arrays), dtype=np.uint8)
