"""A soup: the texts that are appended to every class name, where they come from, and what they were judged on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from wsoup.core import prompts
from wsoup.core.errors import MismatchError, ParamsError
from wsoup.disk import store
from wsoup.soup import file as soup_file


@dataclass(frozen=True)
class Step:
    """One thing added, and the count of correct images after it."""

    added: str
    n_correct: int


@dataclass(frozen=True)
class Member:
    """One text of a soup and how it came about.

    Attributes:
        text: a descriptor or a chain of words, bare; "" is the class name alone.
        n_correct: images right, of `n_images`. Of Algorithm 1: by the soup up to and with this member; of a word chain:
            by the chain alone, finished with its final period. None where nothing was counted.
        n_images: images that it was judged on, or None.
        trace: what was added, and the count after it, as it stood in the search.
    """

    text: str
    n_correct: int | None = None
    n_images: int | None = None
    trace: tuple[Step, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As a soup file holds it."""
        counts = {"n_correct": self.n_correct, "n_images": self.n_images}
        trace = [{"added": step.added, "n_correct": step.n_correct} for step in self.trace]
        return {"text": self.text, **{k: v for k, v in counts.items() if v is not None}, "trace": trace}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Member:
        """What `as_json` made."""
        trace = tuple(Step(step["added"], step["n_correct"]) for step in value["trace"])
        return cls(value["text"], value.get("n_correct"), value.get("n_images"), trace)


@dataclass(frozen=True)
class Cost:
    """What a ranking or a search encoded (`wsoup.search.cost`).

    Attributes:
        texts: candidates, each of which is encoded with every class.
        tokens: tokens through the text tower, over all classes.
        flops: multiplications and additions in their matrix products, without attention; None where the tower is one
            that only `encode_text` knows.
    """

    texts: int
    tokens: int
    flops: int | None

    def __add__(self, other: Cost) -> Cost:
        flops = None if self.flops is None or other.flops is None else self.flops + other.flops
        return Cost(self.texts + other.texts, self.tokens + other.tokens, flops)

    def as_json(self) -> dict[str, int | None]:
        """As files hold it."""
        return asdict(self)


NOTHING = Cost(0, 0, 0)
"""Where nothing was encoded."""


@dataclass(frozen=True)
class Soup:
    """Texts that all classes share; their features are averaged (centroid), or their scores (score mean).

    Attributes:
        kind: how it was made, as in params.yaml (``greedy``, ``chains``, ...), or ``class_name``, ``upper_bound``.
        seed: whose few-shot images it was selected on.
        template: of the source dataset, with one ``{}``.
        encoder: id of the encoder that it was selected with.
        members: in the order in which they were added.
        made_with: versions of the packages that decided it, by name.
        class_name_weight: the class name without a text joins the centroid as if it were so many members.
        class_name_correct: what the class name without a text gets right of the images that members were judged on,
            as it is evaluated; None where nothing was counted.
        cost: of its ``ranking`` and its ``search``; empty where none is known.
    """

    kind: str
    seed: int
    template: str
    encoder: Mapping[str, Any]
    members: tuple[Member, ...]
    made_with: Mapping[str, str] = field(default_factory=dict)
    class_name_weight: float = 0.0
    class_name_correct: int | None = None
    cost: Mapping[str, Cost] = field(default_factory=dict)

    @property
    def weighted_texts(self) -> list[tuple[str, float]]:
        """Texts and their weights in the mean of text features: each member 1, and "" where the class name joins."""
        name = [("", self.class_name_weight)] if self.class_name_weight else []
        return [*((text, 1.0) for text in self.texts), *name]

    @property
    def no_better(self) -> int:
        """How many members get no more right than the class name alone; 0 where they were not counted one by one."""
        if self.class_name_correct is None or self.kind in ("greedy", "joint"):
            return 0
        counts = [member.n_correct for member in self.members if member.n_correct is not None]
        return sum(count <= self.class_name_correct for count in counts)

    @property
    def texts(self) -> list[str]:
        """The members, bare: M."""
        return [member.text for member in self.members]

    def templates(self, template: str | None = None) -> list[str]:
        """Whole prompt templates with one ``{}`` for the class name, as `open_clip.build_zero_shot_classifier` takes.

        Args:
            template: of another dataset; the soup's own without.

        Raises:
            ParamsError: the class name's weight is no whole number of members.
        """
        # Every brace but the placeholder's is doubled, since whoever uses a template calls `str.format`.
        if not float(self.class_name_weight).is_integer():
            raise ParamsError(
                f"the class name counts as {self.class_name_weight} members in this soup, which templates cannot say; "
                "use Soup.classifier"
            )
        texts = [*self.texts, *[""] * int(self.class_name_weight)]
        whole = [prompts.prompt(template or self.template, "\0", text) for text in texts]
        return [text.replace("{", "{{").replace("}", "}}").replace("\0", "{}") for text in whole]

    def class_name_soup(self) -> Self:
        """The soup without a text, of the same template and encoder: class names alone, to compare with."""
        return type(self)("class_name", self.seed, self.template, self.encoder, (Member(""),))

    def as_json(self) -> dict[str, Any]:
        """As files hold it."""
        return {
            **{key: getattr(self, key) for key in ("kind", "seed", "template")},
            "encoder": dict(self.encoder),
            "members": [member.as_json() for member in self.members],
            "made_with": dict(self.made_with),
            "class_name_weight": self.class_name_weight,
            "class_name_correct": self.class_name_correct,
            "cost": {part: cost.as_json() for part, cost in self.cost.items()},
        }

    def save(self, path: str | Path) -> None:
        """Write it as JSON, whole or not at all."""
        store.write_json(path, self.as_json())

    @classmethod
    def load(cls, path: str | Path, *, encoder: Mapping[str, Any] | None = None) -> Self:
        """Read what `save` wrote.

        Args:
            path: a soup file.
            encoder: the id that it must be of; None takes any.

        Raises:
            MissingError: no such file.
            MismatchError: no soup, or a soup of another encoder.
        """
        made = cls.from_json(soup_file.read(path), origin=path)
        if encoder is not None:
            store.check_encoder(made.encoder, expected=encoder, where=path)
        return made

    @classmethod
    def from_json(cls, given: Any, *, origin: str | Path) -> Self:
        """What `as_json` made, wherever it comes from; MismatchError, naming `origin`, where it is no soup."""
        value = soup_file.checked(given, origin=origin)
        try:
            prompts.checked(value["template"])
        except ParamsError as error:
            raise MismatchError(f"{origin} is not a soup: {error}") from None
        members = tuple(Member.from_json(member) for member in value["members"])
        cost = {part: Cost(**cost) for part, cost in value.get("cost", {}).items()}
        return cls(
            kind=value["kind"],
            seed=value["seed"],
            template=value["template"],
            encoder=value["encoder"],
            members=members,
            made_with=value.get("made_with", {}),
            class_name_weight=value.get("class_name_weight", 0.0),
            class_name_correct=value.get("class_name_correct"),
            cost=cost,
        )
