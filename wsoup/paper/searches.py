"""The authors' own searches, scored again here with real weights: known answers for `wsoup verify paper`.

data/paper/authors_search_log.csv holds what their logs print (Chris210634/word_soups, example_logs/): ViT-B-16 with
OpenAI's weights, ImageNet, their three 16-shot splits. The best single texts and the descriptor soups involve no chance
and are compared with ours. Word chains depend on their draws, so only their texts are scored again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from wsoup.core.prompts import bare
from wsoup.core.scoring import normalize
from wsoup.disk import store
from wsoup.paper import tables
from wsoup.search.rank.ranking import rank
from wsoup.search.rank.source import Source

HALF_PRECISION = 2.0**-11
"""Two classes whose cosines with an image are closer than this may change places in the authors' half precision: the
relative spacing of its numbers, to which they round texts and images in every block. Measured on 202 photographs with a
small encoder: the gap between the two best classes moved by 2.0e-4 (median), 5.5e-4 (90 %)."""
DEVIATIONS = 3.0
"""Images that close tip either way like a coin, so n of them move the count by at most sqrt(n), one standard deviation.
This many standard deviations are allowed."""
PERIOD = {"word": False, "descriptor": True}
"""Whether their search keeps the final period (`candidates.<pool>.period`)."""
Verdict = tuple[bool, str]
"""Whether a whole search or pool agrees with theirs, and the sentence that says so."""


class Step(NamedTuple):
    """One line of the log: a word chain, or a descriptor soup up to and including `text`, and its accuracy.

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
class Compared:
    """A count of theirs and ours; `within`: images that half precision explains.

    Attributes:
        row, seed, on: what was counted, with which seed, on which dataset or with which text.
        theirs, of: their number of correct images, and of images.
        ours, ours_of: ours.
    """

    row: str
    seed: int
    on: str
    theirs: int
    of: int
    ours: int
    ours_of: int
    within: int

    @property
    def agrees(self) -> bool:
        return self.of == self.ours_of and abs(self.ours - self.theirs) <= self.within


def read_searches() -> list[Step]:
    """The authors' log of their searches."""
    return [
        Step(
            line["soup"],
            int(line["seed"]),
            int(line["member"]),
            int(line["step"]),
            bare(line["text"]),
            float(line["accuracy"]),
        )
        for line in tables.read("authors_search_log")
    ]


def right_and_near(images: Tensor, labels: Tensor, classes: Tensor) -> tuple[int, int]:
    """How many images are classified correctly, and by how many half precision may move that count.

    Args:
        images: (N, D), L2-normalised.
        labels: (N,).
        classes: (C, D).
    """
    scores = images @ classes.T  # (N, C)
    own = scores.gather(1, labels[:, None]).squeeze(1)
    right = int((scores.argmax(dim=1) == labels).sum())
    others = scores.scatter(1, labels[:, None], -math.inf).amax(dim=1)
    near = int(((own - others).abs() < HALF_PRECISION).sum())
    return right, math.ceil(DEVIATIONS * math.sqrt(near))


def score(log: Sequence[Step], *, source: Source, period: Mapping[str, bool] = PERIOD) -> dict[Step, Compared]:
    """Score every line of the log whose seed the source has, on the same images and in the same way as they do.

    A word chain is scored alone, without its period; a line of a descriptor soup as the centroid of all texts so far.
    """
    compared = {}
    groups: dict[tuple[str, int, int], list[Step]] = {}
    for step in log:
        if step.seed in source.subsets:
            # The first member of a descriptor soup is its best single text, so all its lines are one group.
            groups.setdefault((step.soup, step.seed, step.member if step.soup == "word" else 0), []).append(step)
    for (soup, seed, _), steps in groups.items():
        images, labels = source.images_of(seed)
        features = torch.cat(list(source.text_blocks([step.text for step in steps], period=period[soup])))  # (M, C, D)
        if soup == "descriptor":
            features = normalize(features.cumsum(dim=0))
        n = len(labels)
        for step, classes in zip(steps, features, strict=True):
            right, within = right_and_near(images, labels, classes)
            theirs = round(step.theirs * n / 100.0)  # the log's three decimal places determine the count
            compared[step] = Compared(soup, seed, step.text, theirs, n, right, n, within)
    return compared


def best_agrees(step: Step, *, scores: Path, within: int) -> Verdict:
    """Whether their best single text is also ours, up to ties within the tolerance.

    Args:
        step: of member 0.
        scores: the scored pool.
        within: images.
    """
    lines = store.read_table(scores, columns=["text", "seed", "n_correct"]).to_pylist()
    lines = [line for line in lines if line["seed"] == step.seed and line["text"]]
    ranked = [lines[i] for i in rank([line["n_correct"] for line in lines])]
    what = f"{step.soup}s, seed {step.seed}: their best is {step.text!r}"
    for position, line in enumerate(ranked):
        if line["text"] == step.text:
            behind = ranked[0]["n_correct"] - line["n_correct"]
            ours = f"ours is {ranked[0]['text']!r}; theirs has rank {position + 1}, {behind} images behind"
            return behind <= within, f"{what}, {ours if position else 'ours too'}"
    return False, f"{what}, which is not in this run's pool"


def soup_agrees(
    steps: Sequence[Step], *, members: Sequence[str], source: Source, period: bool = PERIOD["descriptor"]
) -> Verdict:
    """Whether our descriptor soup of a seed is theirs; the two may differ only from a near tie onwards.

    Args:
        steps: their members of one seed in order, the best single text first.
        members: ours.
        source: its few-shot images decide what is a near tie.
        period: whether texts end with a period.
    """
    theirs, ours = [step.text for step in steps], list(members)
    what = f"descriptor soup, seed {steps[0].seed}: theirs has {len(theirs)} members, ours {len(ours)}"
    if theirs == ours:
        return True, f"{what}, the same"
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(theirs, ours, strict=False)))

    def counted(texts: list[str]) -> tuple[int, int]:
        features = torch.cat(list(source.text_blocks(texts, period=period)))
        return right_and_near(*source.images_of(steps[0].seed), normalize(features.sum(dim=0)))

    before = theirs[:same]
    base, within = counted(before or (ours or theirs)[:1])
    our_gain, their_gain = (
        counted([*before, *texts[same : same + 1]])[0] - base if texts[same:] else None for texts in (ours, theirs)
    )
    # Half precision may have decided if our next member gains too little, or theirs falls short by too little.
    refused_there = our_gain is not None and 0 < our_gain <= within
    refused_here = their_gain is not None and -within <= their_gain <= 0 and (our_gain is None or our_gain >= 0)
    tie = refused_there or refused_here
    parted = "they part at a near tie" if tie else "they part where no tie is near"
    return tie, f"{what}; the first {same} are the same, {parted}"
