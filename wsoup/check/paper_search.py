"""The authors' own searches, scored again here with real weights: known answers for `wsoup verify paper`.

data/paper/authors_search_log.csv holds what their logs print (Chris210634/word_soups, example_logs/): ViT-B-16 with
OpenAI's weights, ImageNet, their three 16-shot splits. The best single texts and the descriptor soups involve no chance
and are compared with ours. Word chains depend on their draws, so only their texts are scored again.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from wsoup.base.errors import MissingError
from wsoup.core.prompts import bare
from wsoup.core.scoring import normalize
from wsoup.disk import store
from wsoup.search.rank.ranking import rank
from wsoup.search.rank.source import Source

FOLDER = Path("data/paper")
LOG = FOLDER / "authors_search_log.csv"
HALF_PRECISION = 2.0**-11
"""Two classes whose cosines with an image are closer than this may change places in the authors' half precision: the
relative spacing of its numbers, to which they round texts and images in every block. Measured on 202 photographs with a
small encoder: the gap between the two best classes moved by 2.0e-4 (median), 5.5e-4 (90 %)."""
DEVIATIONS = 3.0
"""Images that close tip either way like a coin, so n of them move the count by at most sqrt(n), one standard deviation.
This many standard deviations are allowed."""
ROUNDING = 0.0005
"""The log has three decimal places."""
PERIOD = {"word": False, "descriptor": True}
"""Whether their search keeps the final period (`candidates.<pool>.period`)."""


@dataclass(frozen=True)
class Step:
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
class Checked:
    """A line of the log and our accuracy, in per cent; `within`: points that half precision explains."""

    step: Step
    ours: float
    within: float

    @property
    def difference(self) -> float:
        return self.ours - self.step.theirs

    @property
    def agrees(self) -> bool:
        return abs(self.difference) <= self.within + ROUNDING


@dataclass(frozen=True)
class Agreement:
    """Whether a whole search agrees with theirs, and the sentence that says so."""

    holds: bool
    says: str


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a file in data/paper, as text.

    Raises:
        MissingError: no such file.
    """
    if not path.is_file():
        raise MissingError(f"{path} does not exist; run `wsoup verify paper` in the folder of the project")
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_searches(path: Path = LOG) -> list[Step]:
    """The authors' log of their searches; raises as `read_csv`."""
    return [
        Step(
            line["soup"],
            int(line["seed"]),
            int(line["member"]),
            int(line["step"]),
            bare(line["text"]),
            float(line["accuracy"]),
        )
        for line in read_csv(path)
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


def score(log: Sequence[Step], *, source: Source, period: Mapping[str, bool] = PERIOD) -> list[Checked]:
    """Score every line of the log whose seed the source has, on the same images and in the same way as they do.

    A word chain is scored alone, without its period; a line of a descriptor soup as the centroid of all texts so far.
    """
    checked = []
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
        share = 100.0 / len(labels)
        for step, classes in zip(steps, features, strict=True):
            right, within = right_and_near(images, labels, classes)
            checked.append(Checked(step, share * right, share * within))
    return checked


def ranking(scores: Path, *, seed: int) -> list[tuple[str, float]]:
    """Candidates of a scored pool with their accuracies on one seed in per cent, best first, without the empty text."""
    lines = store.read_table(scores, columns=["text", "seed", "n_correct", "n_images", "n_classes"]).to_pylist()
    lines = [line for line in lines if line["seed"] == seed and line["text"]]
    n_classes = max((line["n_classes"] for line in lines), default=0)
    lines = [line for line in lines if line["n_classes"] == n_classes]  # only the last round of a race has all classes
    order = rank([line["n_correct"] for line in lines])
    return [(lines[i]["text"], 100.0 * lines[i]["n_correct"] / lines[i]["n_images"]) for i in order]


def best_agrees(step: Step, *, ranked: Sequence[tuple[str, float]], within: float) -> Agreement:
    """Whether their best single text is also ours, up to ties within the tolerance.

    Args:
        step: of member 0.
        ranked: our candidates and their accuracies on the seed's images, best first.
        within: points.
    """
    texts = [text for text, _ in ranked]
    what = f"{step.soup}s, seed {step.seed}: their best is {step.text!r}"
    if step.text not in texts:
        return Agreement(False, f"{what}, which is not in this run's pool")
    position = texts.index(step.text)
    behind = ranked[0][1] - ranked[position][1]
    ours = f"ours is {texts[0]!r}; theirs has rank {position + 1}, {behind:.3f} points behind"
    return Agreement(behind <= within, f"{what}, {ours if position else 'ours too'}")


def soup_agrees(
    steps: Sequence[Step], *, members: Sequence[str], source: Source, period: bool = PERIOD["descriptor"]
) -> Agreement:
    """Whether our descriptor soup of a seed is theirs; the two may differ only from a near tie onwards.

    Args:
        steps: their members of one seed in order, the best single text first.
        members: ours.
        source: its few-shot images decide what is a near tie.
        period: whether texts end with a period.
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
    """Whether half precision may have decided between the next member of our soup and the next of theirs.

    Candidates are tried in the order of their own counts. If ours comes first, it was accepted here and refused there:
    it must gain, but so little that it may not have. If theirs comes first, it must fall short by just as little.
    """

    def counted(texts: list[str]) -> tuple[int, int]:
        features = torch.cat(list(source.text_blocks(texts, period=period)))
        return right_and_near(*source.images_of(seed), normalize(features.sum(dim=0)))

    lead, uncertain = 0, 0  # by how many images ours ranks before theirs, and how many of them are uncertain
    if ours and theirs:
        (our_count, uncertain), (their_count, _) = counted(ours), counted(theirs)
        lead = our_count - their_count
    if not before:  # the best single text
        return 0 <= lead <= uncertain
    base, within = counted(before)
    gain = counted(before + ours)[0] - base if ours else 0
    shortfall = base - counted(before + theirs)[0] if theirs else -1
    refused_there, refused_here = 0 < gain <= within, 0 <= shortfall <= within
    return (refused_there and (not theirs or lead >= -uncertain)) or (
        refused_here and (not ours or (gain > 0 and lead <= uncertain))
    )
