"""A soup: the texts that are appended to every class name, where they come from, and what they were judged on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidatorFunctionWrapHandler, WrapValidator

from wsoup.core import prompts
from wsoup.core.arguments import Place, Template, Words, at_the_door, checked_fields
from wsoup.core.disk import store
from wsoup.core.errors import MismatchError, MissingError, ParamsError, one_line
from wsoup.soup.member import Cost, Count, Member


def _named(encoder: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(encoder.get("model"), str) or not isinstance(encoder.get("pretrained", 0), str | None):
        raise ValueError("expected the encoder's model and pretrained")
    return encoder


def _as_written(value: Any, read: ValidatorFunctionWrapHandler) -> Member:
    """A member of a soup file, which always says how it came about."""
    if isinstance(value, Mapping) and "trace" not in value:
        raise ValueError("expected a trace")
    member: Member = read(value)
    if member.n_correct is not None and member.n_images is not None and member.n_correct > member.n_images:
        raise ValueError(f"{member.n_correct} right of {member.n_images} images")
    return member


Plain = Words | bool | Annotated[int, Field(lt=2**63)] | Annotated[float, Field(allow_inf_nan=False)] | None
EncoderId = Annotated[Mapping[Words, Plain], AfterValidator(_named)]
Numbers = Annotated[list[int | float], Field(max_length=3)]
Preprocessing = Annotated[Mapping[Words, Plain | Numbers], Field(max_length=20)]
"""What is done to images before the encoder: size, mean, std, interpolation, resize_mode; empty where nobody knows."""
Members = Annotated[tuple[Annotated[Member, WrapValidator(_as_written)], ...], Field(min_length=1, max_length=10_000)]

COUNTED_TOGETHER = ("greedy", "joint")
"""Kinds of soup whose members are counted with those before them, not alone."""


@dataclass(frozen=True, repr=False)
class Soup:
    """Texts that all classes share; their features are averaged (centroid), or their scores (score mean).

    Attributes:
        kind: how it was made, as in params.yaml (``greedy``, ``chains``, ...), or ``class_name``, ``upper_bound``.
        seed: whose few-shot images it was selected on; None: all seeds together (`wsoup.soup.seeds`).
        template: of the source dataset, with one ``{}``.
        encoder: id of the encoder that it was selected with.
        members: in the order in which they were added.
        made_with: versions of the packages that decided it, by name.
        preprocessing: what images went through before that encoder.
        class_name_weight: the class name without a text joins the centroid as if it were so many members.
        class_name_correct: what the class name without a text gets right of the images that members were judged on,
            as it is evaluated; None where nothing was counted.
        cost: of its ``ranking`` and its ``search``; empty where none is known.
    """

    kind: Words
    seed: Count | None
    template: Template
    encoder: EncoderId
    members: Members
    made_with: Mapping[Words, Words] = field(default_factory=dict)
    preprocessing: Preprocessing = field(default_factory=dict)
    class_name_weight: Annotated[float, Field(ge=0, le=1e6, strict=True)] = 0.0
    class_name_correct: Count | None = None
    cost: Mapping[str, Cost] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_fields(self)

    def __repr__(self) -> str:
        texts = [*map(repr, self.texts[:3]), *(["..."] if len(self.members) > 3 else [])]
        made_for = f"{self.encoder.get('model')}/{self.encoder.get('pretrained')}"
        return f"<{self.kind} soup, {self.drawn_by}, {made_for}, {len(self.members)} members: {', '.join(texts)}>"

    @property
    def weighted_texts(self) -> list[tuple[str, float]]:
        """Texts and their weights in the mean of text features: each member 1, and "" where the class name joins."""
        name = [("", self.class_name_weight)] if self.class_name_weight else []
        return [*((text, 1.0) for text in self.texts), *name]

    @property
    def drawn_by(self) -> str:
        """``seed 1``, or ``all seeds``."""
        return "all seeds" if self.seed is None else f"seed {self.seed}"

    @property
    def together(self) -> bool:
        """Whether a member's count is of the soup up to and with it, not of the member alone."""
        return self.kind in COUNTED_TOGETHER

    @property
    def no_better(self) -> int:
        """How many members get no more right than the class name alone; 0 where they were not counted one by one."""
        if self.class_name_correct is None or self.together:
            return 0
        counts = [member.n_correct for member in self.members if member.n_correct is not None]
        return sum(count <= self.class_name_correct for count in counts)

    @property
    def texts(self) -> list[str]:
        """The members, bare: M."""
        return [member.text for member in self.members]

    @at_the_door
    def templates(self, template: Template | None = None, *, place: Words = "{}") -> list[str]:
        """Whole prompt templates with one ``{}`` for the class name, as `open_clip.build_zero_shot_classifier` takes.

        Args:
            template: of another dataset (default: the soup's).
            place: what stands for the class name.

        Raises:
            ParamsError: the class name's weight is not a whole number of members.
        """
        # Every brace but the placeholder's is doubled, since whoever uses a template calls `str.format`.
        if not float(self.class_name_weight).is_integer():
            raise ParamsError(
                f"the class name counts as {self.class_name_weight} members in this soup, which templates cannot say; "
                "use Soup.classifier"
            )
        texts = [*self.texts, *[""] * int(self.class_name_weight)]
        whole = [prompts.prompt(template or self.template, "\0", text) for text in texts]
        return [text.replace("{", "{{").replace("}", "}}").replace("\0", place) for text in whole]

    def class_name_soup(self) -> Self:
        """The soup without a text, of the same template and encoder: class names alone, to compare with."""
        name = (Member(""),)
        return type(self)("class_name", self.seed, self.template, self.encoder, name, preprocessing=self.preprocessing)

    def as_json(self) -> dict[str, Any]:
        """As files hold it."""
        return {
            **{key: getattr(self, key) for key in ("kind", "seed", "template")},
            "encoder": dict(self.encoder),
            "members": [member.as_json() for member in self.members],
            "made_with": dict(self.made_with),
            "preprocessing": dict(self.preprocessing),
            "class_name_weight": self.class_name_weight,
            "class_name_correct": self.class_name_correct,
            "cost": {part: cost.as_json() for part, cost in self.cost.items()},
        }

    @at_the_door
    def save(self, path: Place) -> None:
        """Write it as JSON, whole or not at all; a path may be a URL such as ``s3://...`` or ``hf://...``."""
        store.write_json(path, self.as_json())

    @classmethod
    @at_the_door
    def load(cls, path: Place, *, encoder: Mapping[str, Any] | None = None) -> Self:
        """Read what `save` wrote.

        Args:
            path: a soup file, which may be a URL.
            encoder: the id that it must be of; None takes any.

        Raises:
            MissingError: no such file.
            MismatchError: no soup, or a soup of another encoder.
        """
        try:
            value = store.read_json(path)
        except MissingError:
            raise MissingError(
                f"{path} does not exist; soups are made by wsoup.word_soup and the like, or by `dvc repro soup`"
            ) from None
        soup = cls.from_json(value, origin=path)
        if encoder is not None:
            store.check_encoder(soup.encoder, expected=encoder, where=path)
        return soup

    @classmethod
    def from_json(cls, value: Any, *, origin: str | Path) -> Self:
        """What `as_json` made, wherever it comes from; MismatchError, naming `origin`, where it is no soup."""
        try:
            if not isinstance(value, Mapping):
                raise ValueError("expected an object")
            return cls(**value)
        except (ValueError, TypeError, OverflowError) as error:
            raise MismatchError(f"{one_line(origin)} is not a soup: {one_line(error, limit=300)}") from None
