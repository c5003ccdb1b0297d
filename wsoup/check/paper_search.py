"""Known answers: the authors' own searches with real weights, scored again here.

data/paper/authors_search_log.csv holds what their logs print (Chris210634/word_soups, example_logs/): ViT-B-16 with
OpenAI's weights, ImageNet, their three 16-shot splits. The best single texts and the whole descriptor soups involve no
chance; of word chains the texts and counts are theirs, whatever our draws are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from wsoup.check.paper_counts import FOLDER, lines_of, right_and_near
from wsoup.core.disk import store
from wsoup.core.prompts import bare
from wsoup.core.scoring import normalize
from wsoup.search.rank.ranking import rank
from wsoup.search.rank.source import Source

LOG = FOLDER / "authors_search_log.csv"
ROUNDED = 0.0005
"""The log has three decimal places."""
PERIOD = {"word": False, "descriptor": True}
"""Whether their search leaves the final period (`candidates.<pool>.period`)."""


@dataclass(frozen=True)
class Step:
    """One line of the log: a word chain alone, or a descriptor soup up to and with `text`, and its accuracy.

    Attributes:
        soup: word or descriptor.
        seed, member, step: as in the log; member 0 is the best single text.
        text: bare.
        theirs: per cent, on the seed's 16-shot images.
    """

    soup: str
    seed: int
    member: int
    step: int
    text: str
    theirs: float


@dataclass(frozen=True)
class Checked:
    """A line of the log and what it is here, in per cent; `within`: points that half precision explains."""

    step: Step
    ours: float
    within: float

    @property
    def difference(self) -> float:
        return self.ours - self.step.theirs

    @property
    def agrees(self) -> bool:
        return abs(self.difference) <= self.within + ROUNDED


@dataclass(frozen=True)
class Agreement:
    """A statement about a whole search: whether it holds, and the sentence that says so."""

    holds: bool
    says: str


def read_log(path: Path = LOG) -> list[Step]:
    """The authors' log.

    Raises:
        MissingError: no such file.
    """
    return [
        Step(
            line["soup"],
            int(line["seed"]),
            int(line["member"]),
            int(line["step"]),
            bare(line["text"]),
            float(line["accuracy"]),
        )
        for line in lines_of(path)
    ]


def score(log: Sequence[Step], *, source: Source, period: Mapping[str, bool] = PERIOD) -> list[Checked]:
    """Every line of the log of the source's seeds on the same images, as they score it.

    A word chain is scored alone and without its period; a line of a descriptor soup is the centroid of all up to it.
    """
    checked = []
    groups: dict[tuple[str, int, int], list[Step]] = {}
    for step in log:
        if step.seed in source.subsets:
            # The first member of a descriptor soup is its best single text: one walk.
            groups.setdefault((step.soup, step.seed, step.member if step.soup == "word" else 0), []).append(step)
    for (soup, seed, _), steps in groups.items():
        images, labels = source.images_of(seed)
        features = torch.cat(list(source.text_blocks([step.text for step in steps], period=period[soup])))  # (M, C, D)
        if soup == "descriptor":
            features = normalize(features.cumsum(dim=0))
        share = 100.0 / len(labels)
        for step, classes in zip(steps, features, strict=True):
            right, within = right_and_near(images, labels, classes)
            checked.append(Checked(step, share * right, share * within))
    return checked


def best_agrees(step: Step, *, ranked: Sequence[tuple[str, float]], within: float) -> Agreement:
    """Whether their best single text is ours, up to ties within the tolerance.

    Args:
        step: of member 0.
        ranked: our candidates and their accuracies on the seed's images, the best first.
        within: points.
    """
    texts = [text for text, _ in ranked]
    what = f"{step.soup}s, seed {step.seed}: their best is {step.text!r}"
    if step.text not in texts:
        return Agreement(False, f"{what}, which is not in this run's pool")
    rank = texts.index(step.text)
    behind = ranked[0][1] - ranked[rank][1]
    end = "ours too" if rank == 0 else f"ours is {texts[0]!r}; theirs has rank {rank + 1}, {behind:.3f} points behind"
    return Agreement(behind <= within, f"{what}, {end}")


def soup_agrees(
    steps: Sequence[Step], *, members: Sequence[str], source: Source, period: bool = PERIOD["descriptor"]
) -> Agreement:
    """Whether our descriptor soup of a seed is theirs: it may part from theirs at a near tie alone.

    Args:
        steps: their members of one seed in order, the best single one first.
        members: ours.
        source: whose few-shot images decide what is a near tie.
        period: whether texts end in one.
    """
    theirs = [step.text for step in steps]
    pairs = zip(theirs, members, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(theirs), len(members)))
    what = f"descriptor soup, seed {steps[0].seed}: theirs has {len(theirs)} members, ours {len(members)}"
    if theirs == list(members):
        return Agreement(True, f"{what}, the same")
    next_two = [texts[same : same + 1] for texts in (list(members), theirs)]
    tie = _near_tie(theirs[:same], *next_two, seed=steps[0].seed, source=source, period=period)
    parted = "they part at a near tie" if tie else "they part where no tie is near"
    return Agreement(tie, f"{what}; the first {same} are the same, {parted}")


def _near_tie(
    before: list[str], ours: list[str], theirs: list[str], *, seed: int, source: Source, period: bool
) -> bool:
    """Whether a count that half precision may move decides between what follows in our soup and in theirs.

    Candidates are tried in the order of their own counts. So where ours comes first it was accepted here and refused
    there: it must gain, and so little that it may not have. Where theirs comes first it must miss that by so little.
    """

    def counted(texts: list[str]) -> tuple[int, int]:
        features = torch.cat(list(source.text_blocks(texts, period=period)))
        return right_and_near(*source.images_of(seed), normalize(features.sum(dim=0)))

    ahead, either = 0, 0
    if ours and theirs:  # by how much ours comes first, and what makes that uncertain
        (first, either), (other, _) = counted(ours), counted(theirs)
        ahead = first - other
    if not before:  # the best single text
        return 0 <= ahead <= either
    base, within = counted(before)
    gain = counted(before + ours)[0] - base if ours else 0
    missed = base - counted(before + theirs)[0] if theirs else -1
    refused_there, refused_here = 0 < gain <= within, 0 <= missed <= within
    return (refused_there and (not theirs or ahead >= -either)) or (
        refused_here and (not ours or (gain > 0 and ahead <= either))
    )


def ranking(scores: Path, *, seed: int) -> list[tuple[str, float]]:
    """Candidates of a scored pool with their accuracies on one seed in per cent, the best first; "" is left out."""
    lines = store.read_table(scores, columns=["text", "seed", "n_correct", "n_images", "n_classes"]).to_pylist()
    mine = [line for line in lines if line["seed"] == seed and line["text"]]
    most = max((line["n_classes"] for line in mine), default=0)
    mine = [line for line in mine if line["n_classes"] == most]  # of a race, those of the last round
    order = rank([line["n_correct"] for line in mine])
    return [(mine[i]["text"], 100.0 * mine[i]["n_correct"] / mine[i]["n_images"]) for i in order]
