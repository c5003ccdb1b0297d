"""Known answers: the authors' own searches with real weights, scored again here.

data/paper/authors_search_log.csv holds what their logs print (Chris210634/word_soups, example_logs/): ViT-B-16 with
OpenAI's weights, ImageNet, their three 16-shot splits. The best single texts and the whole descriptor soups involve no
chance; of word chains the texts and counts are theirs, whatever our draws are. So whoever has weights and images knows
in minutes whether this is the paper.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from wsoup.check.whole import Params
from wsoup.core.errors import MismatchError, MissingError
from wsoup.core.prompts import bare
from wsoup.core.scoring import correct_per_candidate, normalize, rank
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.search.rank.source import Source, load_source
from wsoup.soup.soup import Soup
from wsoup.towers.encoder import load_encoder

LOG = Path("data/paper/authors_search_log.csv")
TOLERANCE = {"bilinear": 0.25, "other": 1.0}
"""Points of accuracy that ours may be away from theirs. They encode texts in half precision: cosines move by some 1e-4,
and with them the answer for images whose two best classes are that close, a few tens of the 16,000 (0.25 points are
40 images). With another resizing than their bilinear one every image's features move, and a point is possible."""
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
    """A line of the log and what it is here, in per cent."""

    step: Step
    ours: float

    @property
    def difference(self) -> float:
        return self.ours - self.step.theirs


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
    if not path.is_file():
        raise MissingError(f"{path} does not exist; run `wsoup verify paper` in the folder of the project")
    with open(path, encoding="utf-8", newline="") as file:
        return [
            Step(
                line["soup"],
                int(line["seed"]),
                int(line["member"]),
                int(line["step"]),
                bare(line["text"]),
                float(line["accuracy"]),
            )
            for line in csv.DictReader(file)
        ]


def check_setting(params: Params) -> None:
    """Raise MismatchError unless a run has the encoder, the source, the splits and the shots of the authors' log."""
    dataset = params.datasets[params.source]
    settings = {
        "encoder": (f"{params.encoder.model} / {params.encoder.pretrained}", "ViT-B-16 / openai"),
        "source": (dataset.layout.removeprefix("coop:") if ":" in dataset.layout else params.source, "imagenet"),
        "template": (dataset.template, "a photo of a {}."),
        "fewshot.shots": (params.fewshot.shots, 16),
        "fewshot_pickles": ("given" if dataset.fewshot_pickles else "none", "given"),
    }
    wrong = [f"{key} is {ours}, theirs {theirs}" for key, (ours, theirs) in settings.items() if ours != theirs]
    if wrong:
        raise MismatchError(
            f"the authors' log is of another run: {'; '.join(wrong)}. Begin with `wsoup profile paper "
            "--fewshot-pickles DIR` (their datasets/splits/imagenet), then `dvc repro embed_train fewshot`"
        )


def tolerance(interpolation: str | None) -> float:
    """Points that ours may differ, see `TOLERANCE`."""
    return TOLERANCE["bilinear" if interpolation == "bilinear" else "other"]


def score(log: Sequence[Step], *, source: Source) -> list[Checked]:
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
        features = torch.cat(list(source.text_blocks([step.text for step in steps], period=PERIOD[soup])))  # (M, C, D)
        if soup == "descriptor":
            features = normalize(features.cumsum(dim=0))
        counts = correct_per_candidate(images, labels, features).sum(dim=1).tolist()
        checked += [Checked(step, 100.0 * count / len(labels)) for step, count in zip(steps, counts, strict=True)]
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


def soup_agrees(steps: Sequence[Step], *, members: Sequence[str]) -> Agreement:
    """How far our descriptor soup of a seed is theirs: it may part from theirs where two counts nearly tie.

    Args:
        steps: their members of one seed in order, the best single one first.
        members: ours.
    """
    theirs = [step.text for step in steps]
    pairs = zip(theirs, members, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(theirs), len(members)))
    shared = len(set(theirs) & set(members))
    what = f"descriptor soup, seed {steps[0].seed}: theirs has {len(theirs)} members, ours {len(members)}"
    if theirs == list(members):
        return Agreement(True, f"{what}, the same")
    return Agreement(shared > 0, f"{what}; the first {same} are the same, {shared} are in both")


def agreements(
    log: Sequence[Step],
    *,
    rankings: Mapping[tuple[str, int], Sequence[tuple[str, float]]],
    soups: Mapping[int, Sequence[str]],
    within: float,
) -> list[Agreement]:
    """What can be said of whole searches.

    Args:
        log: theirs.
        rankings: (soup, seed) -> our candidates with accuracies, the best first; what is not there is not judged.
        soups: seed -> members of our descriptor soup.
        within: points.
    """
    statements = [
        best_agrees(step, ranked=rankings[step.soup, step.seed], within=within)
        for step in log
        if step.member == 0 and (step.soup, step.seed) in rankings
    ]
    for seed, members in soups.items():
        steps = [step for step in log if step.soup == "descriptor" and step.seed == seed]
        if steps:
            statements.append(soup_agrees(steps, members=members))
    return statements


def of_run(params: Params, *, artifacts: Artifacts) -> tuple[list[Checked], list[Agreement]]:
    """The authors' log against a run, as far as the run has got: features and splits are needed, the rest may be there.

    Raises:
        MissingError, MismatchError: another setting than theirs, or stage embed_train or fewshot has not run.
    """
    check_setting(params)
    log = read_log()
    seeds = [seed for seed in params.seeds if any(step.seed == seed for step in log)]
    encoder = load_encoder(params.encoder)
    source = load_source(artifacts, source=params.source, seeds=seeds, encoder=encoder)
    rankings = {}
    for soup, seed in dict.fromkeys((step.soup, step.seed) for step in log if step.member == 0 and step.seed in seeds):
        path = artifacts.scores("words" if soup == "word" else "descriptors")
        if path.is_file():
            rankings[soup, seed] = ranking(path, seed=seed)
    paths = {seed: artifacts.soup("descriptor", seed=seed) for seed in seeds}
    soups = {seed: Soup.load(path, encoder=encoder.id).texts for seed, path in paths.items() if path.is_file()}
    within = tolerance(params.encoder.interpolation)
    return score(log, source=source), agreements(log, rankings=rankings, soups=soups, within=within)


def ranking(scores: Path, *, seed: int) -> list[tuple[str, float]]:
    """Candidates of a scored pool with their accuracies on one seed in per cent, the best first; "" is left out."""
    lines = store.read_table(scores, columns=["text", "seed", "n_correct", "n_images", "n_classes"]).to_pylist()
    mine = [line for line in lines if line["seed"] == seed and line["text"]]
    most = max((line["n_classes"] for line in mine), default=0)
    mine = [line for line in mine if line["n_classes"] == most]  # of a race, those of the last round
    order = rank([line["n_correct"] for line in mine])
    return [(mine[i]["text"], 100.0 * mine[i]["n_correct"] / mine[i]["n_images"]) for i in order]
