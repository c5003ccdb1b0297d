"""Known counts: the authors' evaluated texts counted again, on whichever of the paper's 15 datasets a run has.

data/paper/authors_evaluation_log.csv holds the integer counts of their log (Chris210634/word_soups,
example_logs/example_run_pt_eval_ViT-B-16_openai_output.txt): nine rows, three seeds. authors_evaluated_texts.csv holds
the soups that they are of. So nothing here hangs on a search of ours.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from wsoup.core.errors import MissingError
from wsoup.core.prompts import bare
from wsoup.core.scoring import normalize
from wsoup.datasets.paper import PAPER
from wsoup.evaluate.classifiers import Row, class_rows
from wsoup.evaluate.counts import mean_prompts, mean_texts
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.rows import BEFORE_SOUPS
from wsoup.evaluate.testsets import TestSet
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import ensemble_templates

FOLDER = Path("data/paper")
REACH = 2.0**-11
"""Two classes whose cosines with an image are closer than this may change places in the authors' half precision: the
spacing of its numbers relative to their size, of which theirs rounds texts and images in every block. Measured on 202
photographs with a small encoder: the gap between the two best classes moved by 2.0e-4 (median), 5.5e-4 (90 %)."""
DEVIATIONS = 3.0
"""Images within reach tip either way, as a coin falls: of n of them the count moves by sqrt(n) at most, as a standard
deviation. So many of these are allowed."""
ROWS = {
    "ZS": ("class_name", "centroid", False),
    "ensemble": ("ensemble", "centroid", False),
    "gpt-centroids": ("gpt", "centroid", False),
    "gpt-score-averaging": ("gpt", "score_mean", False),
    "word-soup": ("word", "centroid", False),
    "word-soup-score-average": ("word", "score_mean", False),
    "word-soup-token-offset": ("word", "centroid", True),
    "descriptor-soup": ("descriptor", "centroid", False),
    "descriptor-soup-token-offset": ("descriptor", "centroid", True),
}
"""Rows of their log -> the texts, how they are used, and whether with copies at other token offsets."""
Texts = Mapping[tuple[str, int], Sequence[str]]
"""(word or descriptor, seed) -> members, bare."""


@dataclass(frozen=True)
class Known:
    """A line of their log; `dataset` by our name."""

    method: str
    seed: int
    dataset: str
    n_images: int
    n_correct: int


@dataclass(frozen=True)
class Counted:
    """A line of their log and what it is here; `within`: images that half precision explains."""

    known: Known
    n_images: int
    n_correct: int
    within: int

    @property
    def difference(self) -> int:
        return self.n_correct - self.known.n_correct

    @property
    def agrees(self) -> bool:
        return self.n_images == self.known.n_images and abs(self.difference) <= self.within


def read_log(folder: Path = FOLDER) -> list[Known]:
    """Their counts."""
    names = {paper.title.replace("-", ""): name for name, paper in PAPER.items()}
    return [
        Known(line["method"], int(line["seed"]), names[line["dataset"]], int(line["n_images"]), int(line["n_correct"]))
        for line in lines_of(folder / "authors_evaluation_log.csv")
    ]


def read_texts(folder: Path = FOLDER) -> dict[tuple[str, int], list[str]]:
    """Their soups, members in order."""
    soups: dict[tuple[str, int], list[str]] = {}
    for line in lines_of(folder / "authors_evaluated_texts.csv"):
        soups.setdefault((line["soup"], int(line["seed"])), []).append(bare(line["text"]))
    return soups


def lines_of(path: Path) -> list[dict[str, str]]:
    """A CSV file of data/paper as rows of text."""
    if not path.is_file():
        raise MissingError(f"{path} does not exist; run `wsoup verify paper` in the folder of the project")
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def right_and_near(images: Tensor, labels: Tensor, classes: Tensor) -> tuple[int, int]:
    """Images whose nearest class is their own, and how many half precision may move that count by.

    Args:
        images: (N, D), L2-normalised.
        labels: (N,).
        classes: (C, D).
    """
    scores = images @ classes.T  # (N, C)
    own = scores.gather(1, labels[:, None]).squeeze(1)
    right = int((scores.argmax(dim=1) == labels).sum())
    others = scores.scatter(1, labels[:, None], -math.inf).amax(dim=1)
    near = int(((own - others).abs() < REACH).sum())
    return right, math.ceil(DEVIATIONS * math.sqrt(near))


def count(
    log: Iterable[Known],
    *,
    texts: Texts,
    tests: Sequence[TestSet],
    encoder: PromptEncoder,
    params: EvaluateParams,
) -> Iterator[Counted]:
    """Every line of the log that can be counted here: of these datasets, GPT rows where their descriptors are there.

    Args:
        log: theirs.
        texts: theirs.
        tests: datasets of the run by the paper's names.
        encoder: the model's text side.
        params: token offsets and where they stand.
    """
    soups = [Row(soup, (seed,), tuple(members)) for (soup, seed), members in texts.items()]
    offsets = tuple(params.offsets)
    rows = [Row("class_name", (0,), ("",)), *soups]
    rows += [replace(row, offsets=offsets, offset_formula=params.offset_formula) for row in soups]
    made = mean_texts(rows, class_rows={}, tests=tests, encoder=encoder)
    own = class_rows(tests, rows=BEFORE_SOUPS, seeds=(0,), templates=ensemble_templates())
    for test in tests:
        means = dict(zip(map(_key, rows), made.of(test), strict=True))
        means |= {_key(row): mean_prompts(row, encoder=encoder) for row in own[test.name]}
        for line in (line for line in log if line.dataset == test.name):
            kind, mode, with_offsets = ROWS[line.method]
            seed = line.seed if (kind, line.seed) in texts else 0
            mean = means.get((kind, seed, with_offsets))
            if mean is not None:
                classes = normalize(mean) if mode == "centroid" else mean
                right, near = right_and_near(test.image_features, test.labels, classes)
                yield Counted(line, len(test.labels), right, near)


def _key(row: Row) -> tuple[str, int, bool]:
    return row.method, row.seeds[0], len(row.offsets) > 1


def usual_causes(counted: Sequence[Counted]) -> list[str]:
    """What it usually means where counts disagree, from which of them do."""
    wrong = [line for line in counted if not line.agrees]
    datasets = {line.known.dataset for line in counted}
    causes = [
        f"{name}: {n:,} test images, theirs {known:,}: another split"
        for name, n, known in dict.fromkeys((w.known.dataset, w.n_images, w.known.n_images) for w in wrong)
        if n != known
    ]
    plain = {line.known.dataset for line in wrong if line.known.method == "ZS"}
    if plain and plain == datasets and len(datasets) > 1:
        return [*causes, "the class name alone, everywhere: weights, activation, resizing, decoding or the template"]
    causes += [f"{name}: class names or their order, template, or split" for name in sorted(plain)]
    kinds = Counter(line.known.method for line in wrong if line.known.dataset not in plain)
    groups = {
        "datasets.<name>.gpt_descriptors, gpt_names, gpt_wording or baseline_template": ("gpt",),
        "baseline_template of the prompt ensemble, or the 80 templates": ("ensemble",),
        "evaluate.offsets or offset_formula": ("word-soup-token", "descriptor-soup-token"),
    }
    for cause, starts in groups.items():
        if any(method.startswith(starts) for method in kinds):
            causes.append(f"{', '.join(m for m in kinds if m.startswith(starts))}: {cause}")
    if kinds.keys() & {"word-soup", "word-soup-score-average", "descriptor-soup"}:
        causes.append("soups: how a text is joined to the class name (comma, final period)")
    return causes
