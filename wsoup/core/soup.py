"""The `Soup` value: the texts appended to every class name, how each was selected, and with which encoder.

Soup files come from anywhere, so every field has bounds, which `Soup` checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field

from wsoup.base.arguments import Natural, Place, Words, at_the_door, checked_fields
from wsoup.base.errors import MismatchError, MissingError, one_line, shown_value
from wsoup.base.number_of import number_of
from wsoup.base.validation import nearest
from wsoup.core import prompts
from wsoup.core.member import Cost, Member, Members
from wsoup.disk import store

LARGEST = 1 << 26
"""Largest soup file, in bytes: it may come from anywhere. One of a thousand members has a megabyte."""
MADE_BY = "wsoup.word_soup and the like, or `dvc repro soup`"
"""Where soups are from: a file that is missing or wrong may be a caller's own, or a stage's."""
NOT_SELECTED = "templates"
"""The kind of a soup of templates that nobody selected, with any encoder."""
Template = Annotated[Words, AfterValidator(prompts.checked)]
"""A prompt template as an argument: text with one ``{}``."""


def _checked_encoder(encoder: Mapping[str, object]) -> Mapping[str, object]:
    has_model = isinstance(encoder.get("model"), str)
    # The key must be there, though its value may be None: 0 stands for a key that is not.
    has_pretrained = isinstance(encoder.get("pretrained", 0), str | None)
    if not has_model or not has_pretrained:
        raise ValueError("expected the encoder's model and pretrained")
    return encoder


Plain = Words | bool | Annotated[int, Field(lt=2**63)] | Annotated[float, Field(allow_inf_nan=False)] | None
EncoderId = Annotated[Mapping[Words, Plain], AfterValidator(_checked_encoder)]
Numbers = Annotated[list[int | float], Field(max_length=3)]
Preprocessing = Annotated[Mapping[Words, Plain | Numbers], Field(max_length=20)]
"""Preprocessing of images: size, mean, std, interpolation, resize_mode; empty if unknown."""


def named(encoder: Mapping[str, object]) -> str:
    """An encoder in a line: model/pretrained, or the model alone; "" of a model in memory that nobody has named.

    >>> named({"model": "ViT-B-32", "pretrained": "openai"}), named({"model": "CLIP", "pretrained": None})
    ('ViT-B-32/openai', '')
    """
    model = str(encoder.get("model"))
    pretrained = encoder.get("pretrained")
    if pretrained:
        return f"{model}/{pretrained}"
    # Such a model has the name of its Python class, which reads like a model's.
    return "" if model.isidentifier() else model


@checked_fields
@dataclass(frozen=True, repr=False)
class Soup:
    """Texts that all classes share; their features are averaged (centroid), or their scores (score mean).

    Attributes:
        kind: a kind of params.yaml (``greedy``, ``chains``, ...), or ``class_name``, ``upper_bound``, ``templates``.
        seed: of the few-shot images it was selected on; None: all seeds together (`load_seeds`).
        template: prompt template of the source dataset, with one ``{}``.
        encoder: id of the encoder it was selected with.
        members: in the order in which they were added.
        made_with: versions of the packages that decide the result, by name.
        preprocessing: of the images, for that encoder.
        class_name_correct: correct answers of the bare class name on the members' images, with its final period; None
            if nothing was counted.
        cost: of its ``ranking`` and its ``search``; empty if unknown.
        definition: its entry of section ``soups`` (pool, k0, k1, patience, m, ...), by which it was searched; empty if
            unknown.
        about: facts for people, such as where the texts are from and under which licence they stand.
    """

    kind: Words
    seed: Natural | None
    template: Template
    encoder: EncoderId
    members: Members
    made_with: Mapping[Words, Words] = field(default_factory=dict)
    preprocessing: Preprocessing = field(default_factory=dict)
    class_name_correct: Natural | None = None
    cost: Mapping[str, Cost] = field(default_factory=dict)
    definition: Mapping[Words, Plain] = field(default_factory=dict)
    about: Mapping[Words, Words] = field(default_factory=dict)

    def __repr__(self) -> str:
        texts = [repr(text) for text in self.texts[:3]]
        if len(self.members) > 3:
            texts.append("...")
        about = [f"{self.kind} soup", self.drawn_by, named(self.encoder), number_of(len(self.members), "member")]
        return f"<{', '.join(filter(None, about))}: {', '.join(texts)}>"

    @property
    def texts(self) -> list[str]:
        """The members' bare texts: M."""
        return [member.text for member in self.members]

    @property
    def of_templates(self) -> bool:
        """Whether every member is a template, so that no other template is of use."""
        return all(map(prompts.is_template, self.texts))

    @property
    def drawn_by(self) -> str:
        """``seed 1``, or ``all seeds``."""
        return "all seeds" if self.seed is None else f"seed {self.seed}"

    @at_the_door
    def templates(self, template: Template | None = None, *, place: Words = "{}") -> list[str]:
        """Prompt templates with one ``{}`` for the class name, as `open_clip.build_zero_shot_classifier` takes them.

        Args:
            template: of another dataset (default: the soup's); a member that is a template itself has no use for it.
            place: placeholder of the class name.
        """
        # All other braces are doubled, since users of a template call `str.format`. Until then a character that no
        # text may hold stands for the class name.
        templates = []
        for text in self.texts:
            filled = prompts.prompt(template or self.template, "\0", text)
            escaped = filled.replace("{", "{{").replace("}", "}}")
            templates.append(escaped.replace("\0", place))
        return templates

    def class_name_soup(self) -> Self:
        """The bare class name with the same template and encoder: the baseline to compare the soup with."""
        members = (Member(""),)
        return type(self)(
            "class_name", self.seed, self.template, self.encoder, members, preprocessing=self.preprocessing
        )

    def as_json(self) -> dict[str, object]:
        """JSON value of the soup; `about` is left out if it is empty."""
        value = {**asdict(self), "members": [member.as_json() for member in self.members]}
        if not self.about:
            del value["about"]
        return value

    @classmethod
    def from_json(cls, value: object, *, origin: str | Path) -> Self:
        """Inverse of `as_json`; MismatchError, naming `origin`, if the value is not a soup."""
        try:
            return cls(**_checked_keys(value))
        except (ValueError, TypeError, OverflowError) as error:
            raise MismatchError(f"{one_line(origin)} is not a soup: {one_line(error, limit=300)}") from None

    @at_the_door
    def save(self, path: Place) -> None:
        """Write the soup as JSON, atomically; the path may be a URL such as ``s3://...`` or ``hf://...``."""
        store.write_json(path, self.as_json())

    @classmethod
    @at_the_door
    def load(cls, path: Place, *, encoder: Mapping[str, object] | None = None) -> Self:
        """Read a file written by `save`.

        Args:
            path: a soup file or its URL.
            encoder: required encoder id; None accepts any.

        Raises:
            MissingError: no such file.
            MismatchError: not a soup, or a soup of another encoder.
        """
        if str(path).endswith(".safetensors"):
            raise MismatchError(f"{path} is not a soup but a head, or weights; wsoup.Head.load reads a head")
        try:
            value = store.read_json(path, largest=LARGEST, step=f"make it again with {MADE_BY}")
        except MissingError:
            raise MissingError(f"{path} does not exist; soups are made by {MADE_BY}") from None
        soup = cls.from_json(value, origin=path)
        if encoder is not None:
            step = f"make one for this encoder with {MADE_BY}"
            store.check_encoder(soup.encoder, expected=encoder, where=path, step=step)
        return soup


def _checked_keys(value: object) -> Mapping[str, Any]:
    """The JSON object of a soup; ValueError with the first key that it has too much or lacks."""
    if not isinstance(value, Mapping):
        raise ValueError("expected an object")
    known = [one.name for one in fields(Soup)]
    for key in value:
        if key not in known:
            raise ValueError(f"unknown key {shown_value(key)}; {nearest(str(key), known=known)}")
    for one in fields(Soup):
        has_default = one.default is not MISSING or one.default_factory is not MISSING
        if one.name not in value and not has_default:
            raise ValueError(f"key {one.name!r} is missing")
    return value


def load_seeds(folder: str | Path) -> Soup:
    """Load all seed<k>.json of a folder such as artifacts/soups/word, in the order of seeds, as one soup.

    Raises:
        MissingError, MismatchError: no soups in the folder, or soups that do not belong together.
    """
    soups = [Soup.load(path) for path in Path(folder).glob("seed*.json")]
    if not soups:
        raise MissingError(f"{folder} holds no seed<k>.json; soups are made by stage 'soup': run `dvc repro`")
    # Sorted by number, because by name seed10 would come before seed2.
    soups.sort(key=lambda soup: soup.seed or 0)
    return together(soups, origin=folder)


def together(soups: Sequence[Soup], *, origin: str | Path) -> Soup:
    """Join the members of all seeds, duplicates included.

    Costs and the class name's count are those of one seed's images and are dropped. A single soup is returned as is.

    Raises:
        MismatchError: different kinds, templates or encoders; names `origin`.
    """
    first, *others = soups
    for other in others:
        if (other.kind, other.template, other.definition) != (first.kind, first.template, first.definition):
            raise MismatchError(f"{origin} holds soups of several definitions; run `dvc repro` to make them again")
        store.check_encoder(other.encoder, expected=first.encoder, where=origin)
    if not others:
        return first
    members: list[Member] = []
    for soup in soups:
        members += soup.members
    return replace(first, seed=None, members=tuple(members), class_name_correct=None, cost={})
