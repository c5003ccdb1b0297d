"""The kinds of heads: closed forms on few-shot images.

A kind is a frozen dataclass of its hyperparameters with the functions of `Setting`. They are functions of a `FewShot`:
of features F (n, D), labels, class texts T (D, C) and the logit scale s. Weights are in units of s, which makes them
independent of the logit scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field
from typing import Any, ClassVar, Protocol, Self, TypeVar

from torch import Tensor

from wsoup.heads.fewshot import FewShot
from wsoup.heads.prototypes import ClassMeans, Prototypes
from wsoup.heads.ridge import Ridge

AnySetting = TypeVar("AnySetting", contravariant=True)


class LeftOut(Protocol[AnySetting]):
    """Heads fitted without each fold.

    A table of images by classes would be larger than all else where there are thousands of classes, so logits come in
    blocks of images.
    """

    def logits(self, setting: AnySetting) -> Iterator[tuple[Tensor, Tensor]]:
        """The logits of each image by heads that have not seen its fold.

        Yields:
            Rows of images (b,), and their logits (b, C). Every image that is in a fold comes once, and no other does;
            the order is that of least work.
        """


class Setting(Protocol):
    """Hyperparameters of a kind of head."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @classmethod
    def settings(cls) -> list[Self]:
        """The settings to choose from, the one closest to the texts alone first."""

    @property
    def photos_per_text(self) -> float:
        """How many photos of its class a text counts as, a positive number."""

    @classmethod
    def of(cls, photos_per_text: float) -> Self:
        """The setting for texts that count as so many photos."""

    @classmethod
    def left_out(cls, shots: FewShot) -> LeftOut[Self]:
        """What the heads without each fold have in common, whatever the setting."""

    def fit(self, shots: FewShot) -> Tensor:
        """A classifier W (D, C), with logits f W."""


PARTS: dict[str, tuple[type[Setting], ...]] = {
    "prototypes": (Prototypes,),
    "ridge": (Ridge,),
    "both": (Prototypes, Ridge),
    "means": (ClassMeans,),
}
"""Name in params.yaml -> the kinds that a head is the mean of."""
