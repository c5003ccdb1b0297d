"""`wsoup verify paper`: a run compared with the authors' logs, as far as the run has got.

Whoever has weights and images learns in minutes whether theirs is the paper's setting. Two logs are compared, both of
Chris210634/word_soups (example_logs/), ViT-B-16 with OpenAI's weights; nothing depends on a search of ours:

- data/paper/authors_search_log.csv holds what their searches print, on ImageNet's three 16-shot splits. The best single
  texts and the descriptor soups involve no chance. Word chains depend on their draws; their texts are scored again.
- data/paper/authors_evaluation_log.csv holds integer counts of nine rows on the paper's 15 datasets with three seeds
  (example_run_pt_eval_ViT-B-16_openai_output.txt); authors_evaluated_texts.csv holds the soups behind them.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from wsoup.base.errors import MismatchError
from wsoup.core.class_texts import ClassTexts
from wsoup.core.modes import Mode
from wsoup.core.scoring import Scores
from wsoup.core.soup import Soup
from wsoup.datasets.paper import PAPER
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED, Artifacts
from wsoup.disk.shards import Owner
from wsoup.evaluate.classifiers import class_rows
from wsoup.evaluate.evaluation import mean_texts
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.rows import Material, Row
from wsoup.evaluate.testsets import TestSet, load_tests
from wsoup.paper import coverage, tables
from wsoup.paper.logs import Known, SearchLine, Texts, read_counts, read_searches, read_texts
from wsoup.paper.settings import Settings, differing, images_differ
from wsoup.search.pools.lists import read_pool
from wsoup.search.rank.source import Source, load_source
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder
from wsoup.towers.models import ensemble_templates
from wsoup.towers.run import Run

HALF_PRECISION = 2.0**-11
"""Two classes whose cosines with an image are closer than this may change places in the authors' half precision: the
relative spacing of its numbers, to which they round texts and images in every block. Measured on 202 photographs with a
small encoder: the gap between the two best classes moved by 2.0e-4 (median), 5.5e-4 (90 %)."""
DEVIATIONS = 3.0
"""Images that close tip either way like a coin, so n of them move the count by at most sqrt(n), one standard deviation.
This many standard deviations are allowed."""
PERIOD = {"word": False, "descriptor": True}
"""Whether their search keeps the final period (`candidates.<pool>.period`)."""
ROWS: dict[str, tuple[str, Mode, bool]] = {
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
"""Row of their log -> our row, its evaluation mode, and whether it also has copies at other token offsets."""
CAUSES = {
    "ZS": "weights, activation, resizing or decoding; on one dataset alone its class names or template",
    "gpt": "datasets.<name>.gpt_descriptors, gpt_names, gpt_wording or baseline_template",
    "ensemble": "baseline_template of the prompt ensemble, or the 80 templates",
    "word-soup-token-offset": "evaluate.offsets or offset_formula",
    "descriptor-soup-token-offset": "evaluate.offsets or offset_formula",
    "word-soup": "how a text is joined to the class name (comma, final period)",
    "descriptor-soup": "how a text is joined to the class name (comma, final period)",
}
"""Beginning of a row's name -> what usually makes it differ where the class name alone agrees; the first that fits."""
Verdict = tuple[bool, str]
"""Whether a ranking or pool agrees with theirs, and the sentence that says so."""


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


def check_is_theirs(run: Settings) -> None:
    """Raise MismatchError unless images and texts go through the authors' encoder as theirs do."""
    found = differing(run, paper=Settings.of_paper(), variant=PRETRAINED, row="class_name")
    differences = [mark.why for mark in found]
    # As for tuned models: the logs are of one encoder alone.
    other_encoder = tables.encoder_differs(coverage.encoder_id(run), tuned=True)
    if other_encoder is not None:
        differences.insert(0, other_encoder)
    if differences:
        listed = "; ".join(differences)
        raise MismatchError(f"the authors' logs are of another run: {listed}. Begin with `wsoup profile paper`")


def search_differs(run: Settings) -> str | None:
    """Why the authors' searches cannot be compared with this run's source; None if they can."""
    differences = [mark.why for mark in images_differ(run)]
    shots = run.values["fewshot.shots"]
    if shots != 16:
        differences.append(f"fewshot.shots: {shots}, the paper's 16")
    if not differences:
        return None
    return f"the authors' searches are of another run: {'; '.join(differences)}"


def search_log(
    seeds: Sequence[int], *, source: str, artifacts: Artifacts, encoder: Encoder
) -> tuple[list[Compared], list[Verdict]]:
    """Compare the log of their searches with a run of some seeds, as far as the run has got.

    Raises:
        MissingError: stage embed_train or fewshot has not run.
    """
    log = [step for step in read_searches() if step.seed in seeds]
    logged = tuple(sorted({step.seed for step in log}))
    images = load_source(Run(Owner("verify", "", {}), source, logged, encoder, artifacts))
    compared = score(log, source=images)
    verdicts: list[Verdict] = []
    for step, line in compared.items():
        scores = artifacts.scores(f"{step.soup}s")
        if step.member == 0 and scores.is_file():
            verdicts.append(best_agrees(step, scores=scores, within=line.within))
    for seed in logged:
        their_texts = [step.text for step in log if (step.soup, step.seed) == ("descriptor", seed)]
        path = artifacts.soup("descriptor", seed=seed)
        if their_texts and path.is_file():
            our_texts = Soup.load(path, encoder=encoder.id).texts
            n_same = 0
            # Only the beginning: after a first difference the two soups judge every text beside another centroid.
            for theirs, ours in zip(their_texts, our_texts, strict=False):
                if theirs != ours:
                    break
                n_same += 1
            what = f"descriptor soup, seed {seed}: the first {n_same} of their {len(their_texts)} members are ours"
            verdicts.append((True, f"{what}; a near tie may part them"))
    our_pools = {}
    for pool in ("words", "descriptors"):
        path = artifacts.pool(pool)
        if path.is_file():
            our_pools[pool] = coverage.facts(read_pool(path))
    verdicts += coverage.compare(our_pools, theirs=Settings.of_paper().pools)
    return list(compared.values()), verdicts


def score(
    log: Sequence[SearchLine], *, source: Source, period: Mapping[str, bool] = PERIOD
) -> dict[SearchLine, Compared]:
    """Score every line of the log whose seed the source has, on the same images and in the same way as they do.

    A word chain is scored alone, without its period; a line of a descriptor soup as the centroid of all texts so far.
    """
    compared = {}
    searches: dict[tuple[str, int], list[SearchLine]] = {}
    for step in log:
        if step.seed in source.subsets:
            searches.setdefault((step.soup, step.seed), []).append(step)
    for (soup, seed), steps in searches.items():
        images, labels = source.images_of(seed)
        texts = [step.text for step in steps]
        features = torch.cat(list(source.text_blocks(texts, period=period[soup])))  # (M, C, D)
        if soup == "descriptor":
            features = ClassTexts(features.cumsum(dim=0)).centroids
        n = len(labels)
        for step, classes in zip(steps, features, strict=True):
            right, near = right_and_near(images, labels, classes)
            within = moved_by_half_precision(near)
            # The log's three decimal places determine the count.
            theirs = round(step.theirs * n / 100.0)
            compared[step] = Compared(soup, seed, step.text, theirs, n, right, n, within)
    return compared


def right_and_near(images: Tensor, labels: Tensor, classes: Tensor) -> tuple[int, int]:
    """How many images are classified correctly, and of how many half precision may change that.

    Args:
        images: (N, D), L2-normalised.
        labels: (N,).
        classes: (C, D).
    """
    decided = Scores(images, classes[None]).against(labels, near_tie=HALF_PRECISION)
    return int(decided.right.sum()), int(decided.near.sum())


def moved_by_half_precision(n_near: int) -> int:
    """By how many images a count may move, given the number of near ties."""
    return math.ceil(DEVIATIONS * math.sqrt(n_near))


def best_agrees(step: SearchLine, *, scores: Path, within: int) -> Verdict:
    """Whether their best single text is also the best of our scored pool, up to `within` images."""
    lines = store.read_table(scores, columns=["text", "seed", "n_correct"]).to_pylist()
    counts = {}
    for line in lines:
        if line["seed"] == step.seed and line["text"]:
            counts[line["text"]] = line["n_correct"]
    what = f"{step.soup}s, seed {step.seed}: their best is {step.text!r}"
    if step.text not in counts:
        return False, f"{what}, which is not in this run's pool"
    best = max(counts, key=counts.__getitem__)
    behind = counts[best] - counts[step.text]
    return behind <= within, f"{what}, ours {best!r}, {behind} images better"


def tests_here(artifacts: Artifacts) -> list[dict[str, object]]:
    """The paper's datasets whose test images are embedded, as the stage evaluated writes them."""
    if not artifacts.evaluated.exists():
        return []
    here = []
    for dataset in store.read_checked_object(artifacts.evaluated)["datasets"]:
        name = dataset["name"]
        if name in PAPER and artifacts.features(name, split="test").exists():
            here.append(dataset)
    return here


def evaluation_log(params: EvaluateParams, *, artifacts: Artifacts, encoder: Encoder) -> list[Compared]:
    """Compare the log of their evaluation with this run, on whichever of the 15 datasets are embedded."""
    tests = load_tests(artifacts, datasets=tests_here(artifacts), encoder=encoder)
    if not tests:
        return []
    text_encoder = PromptEncoder.of(encoder)
    log = read_counts()
    return list(compare_counts(log, texts=read_texts(), tests=tests, text_encoder=text_encoder, params=params))


def compare_counts(
    log: Iterable[Known],
    *,
    texts: Texts,
    tests: Sequence[TestSet],
    text_encoder: PromptEncoder,
    params: EvaluateParams,
) -> Iterator[Compared]:
    """Count every line of the log that can be counted here: GPT rows need a dataset's descriptors.

    Args:
        log, texts: theirs.
        tests: datasets of the run, by the paper's names.
        text_encoder: the model's text side.
        params: token offsets, and their formula.
    """
    soups = [Row(soup, (seed,), tuple(members)) for (soup, seed), members in texts.items()]
    offsets = tuple(params.offsets)
    rows = [Row("class_name", (0,), ("",)), *soups]
    rows += [replace(row, offsets=offsets, offset_formula=params.offset_formula) for row in soups]
    # Seed 0 stands for rows that have none.
    rows += class_rows(Material((0,), templates=ensemble_templates()), tests)
    classifiers = mean_texts(rows, tests=tests, text_encoder=text_encoder)
    for test in tests:
        means = {}
        for row, of_classes in classifiers.of(test):
            means[row.method, row.seeds[0], len(row.offsets) > 1] = of_classes
        for line in log:
            if line.dataset != test.name:
                continue
            method, mode, with_offsets = ROWS[line.method]
            seed = line.seed if (method, line.seed) in texts else 0
            mean = means.get((method, seed, with_offsets))
            if mean is not None:
                classes = ClassTexts(mean).classifier(mode)
                right = 0
                near = 0
                for block, images in test.blocks():
                    right_here, near_here = right_and_near(images, test.labels[block], classes)
                    right += right_here
                    near += near_here
                yield Compared(
                    row=line.method,
                    seed=line.seed,
                    on=line.dataset,
                    theirs=line.n_correct,
                    of=line.n_images,
                    ours=right,
                    ours_of=len(test.labels),
                    within=moved_by_half_precision(near),
                )


def usual_causes(lines: Sequence[Compared]) -> list[str]:
    """What usually makes the rows differ whose counts disagree; of the class name alone, if that one does."""
    rows = list(dict.fromkeys(line.row for line in lines if not line.agrees))
    # What makes the class name alone differ makes every other row differ, too.
    if "ZS" in rows:
        rows = ["ZS"]
    causes = []
    for row in rows:
        first = next(cause for start, cause in CAUSES.items() if row.startswith(start))
        causes.append(f"{row}: {first}")
    return causes
