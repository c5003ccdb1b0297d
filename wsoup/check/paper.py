"""`wsoup verify paper`: a run compared with the authors' logs, as far as the run has got.

Whoever has weights and images learns in minutes whether theirs is the paper's setting. Two logs are compared: of their
searches (`paper_search`), and of their evaluation on the paper's 15 datasets, whose texts are counted again here, so
that nothing depends on a search of ours. data/paper/authors_evaluation_log.csv holds its integer counts
(Chris210634/word_soups, example_logs/example_run_pt_eval_ViT-B-16_openai_output.txt): nine rows, three seeds;
authors_evaluated_texts.csv holds the soups.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wsoup.base.errors import MismatchError
from wsoup.check import paper_pools, paper_search
from wsoup.check.paper_search import FOLDER, Agreement, Checked, read_csv, right_and_near
from wsoup.check.whole import Params
from wsoup.core.prompts import bare
from wsoup.core.scoring import normalize
from wsoup.datasets.paper import PAPER
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.evaluate.classifiers import Row, class_rows
from wsoup.evaluate.counts import mean_prompts, mean_texts
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.testsets import TestSet, load_tests
from wsoup.search.rank.pools import read_pool
from wsoup.search.rank.source import load_source
from wsoup.soup.soup import Soup
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder, ensemble_templates

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
"""Row of their log -> our row, its evaluation mode, and whether it also has copies at other token offsets."""
Texts = Mapping[tuple[str, int], Sequence[str]]
"""(word or descriptor, seed) -> members, bare."""


@dataclass(frozen=True)
class Known:
    """A line of their evaluation log; `dataset` by our name."""

    method: str
    seed: int
    dataset: str
    n_images: int
    n_correct: int


@dataclass(frozen=True)
class Counted:
    """A line of their log and our counts; `within`: images that half precision explains."""

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


def check_encoder(params: Params) -> None:
    """Raise MismatchError unless images and texts go through the authors' encoder as theirs do."""
    encoder = params.encoder
    different = _differences(
        {
            "encoder.model": (encoder.model.removesuffix("-quickgelu"), "ViT-B-16"),
            "encoder.pretrained": (encoder.pretrained, "openai"),
            "encoder.interpolation": (encoder.interpolation, "bilinear"),
            "encoder.decoding": (encoder.decoding, "stored"),
            "encoder.image_mean": (encoder.image_mean, None),
            "encoder.image_std": (encoder.image_std, None),
        }
    )
    if different:
        raise MismatchError(f"the authors' logs are of another run: {different}. Begin with `wsoup profile paper`")


def search_differs(params: Params) -> str | None:
    """Why the authors' searches cannot be compared with this run's source; None if they can."""
    dataset = params.datasets[params.source]
    different = _differences(
        {
            "source": (dataset.layout.removeprefix("coop:") if ":" in dataset.layout else params.source, "imagenet"),
            "template": (dataset.template, "a photo of a {}."),
            "fewshot.shots": (params.fewshot.shots, 16),
            "fewshot_pickles": ("given" if dataset.fewshot_pickles else "none", "given"),
        }
    )
    if not different:
        return None
    return (
        f"the authors' searches are of another run: {different}. `wsoup profile paper --fewshot-pickles DIR` (their "
        "datasets/splits/imagenet), then `dvc repro embed_train fewshot`"
    )


def _differences(settings: Mapping[str, tuple[object, object]]) -> str:
    """The settings whose two values, ours and theirs, differ."""
    return "; ".join(f"{key} is {ours}, theirs {theirs}" for key, (ours, theirs) in settings.items() if ours != theirs)


def searches(params: Params, *, artifacts: Artifacts, encoder: Encoder) -> tuple[list[Checked], list[Agreement]]:
    """Compare the log of their searches with a run, as far as the run has got.

    Raises:
        MissingError: stage embed_train or fewshot has not run.
    """
    log = paper_search.read_searches()
    seeds = [seed for seed in params.seeds if any(step.seed == seed for step in log)]
    source = load_source(artifacts, source=params.source, seeds=seeds, encoder=encoder)
    checked = paper_search.score(log, source=source)
    agreements = []
    for line in (line for line in checked if line.step.member == 0):
        path = artifacts.scores("words" if line.step.soup == "word" else "descriptors")
        if path.is_file():
            ranked = paper_search.ranking(path, seed=line.step.seed)
            agreements.append(paper_search.best_agrees(line.step, ranked=ranked, within=line.within))
    for seed in seeds:
        steps = [step for step in log if step.soup == "descriptor" and step.seed == seed]
        path = artifacts.soup("descriptor", seed=seed)
        if steps and path.is_file():
            members = Soup.load(path, encoder=encoder.id).texts
            agreements.append(paper_search.soup_agrees(steps, members=members, source=source))
    paths = {pool: artifacts.pool(pool) for pool in ("words", "descriptors")}
    pools = {pool: paper_pools.facts(read_pool(path)) for pool, path in paths.items() if path.is_file()}
    return checked, [*agreements, *(Agreement(*verdict) for verdict in paper_pools.compare(pools))]


def tests_here(params: Params, *, artifacts: Artifacts) -> list[dict[str, Any]]:
    """The paper's datasets whose test images are embedded, as the stage evaluated writes them."""
    if not artifacts.evaluated.exists():
        return []
    datasets = store.read_object(artifacts.evaluated)["datasets"]
    here = [name for name in params.datasets if name in PAPER and artifacts.features(name, split="test").exists()]
    return [dataset for dataset in datasets if dataset["name"] in here]


def evaluations(params: Params, *, artifacts: Artifacts, encoder: Encoder) -> list[Counted]:
    """Compare the log of their evaluation with this run, on whichever of the 15 datasets are embedded."""
    tests = load_tests(artifacts, datasets=tests_here(params, artifacts=artifacts), encoder=encoder)
    if not tests:
        return []
    texts = PromptEncoder.of(encoder)
    return list(count(read_counts(), texts=read_texts(), tests=tests, encoder=texts, params=params.evaluate))


def read_counts(folder: Path = FOLDER) -> list[Known]:
    """Their counts; raises as `paper_search.read_csv`."""
    names = {paper.title.replace("-", ""): name for name, paper in PAPER.items()}
    return [
        Known(line["method"], int(line["seed"]), names[line["dataset"]], int(line["n_images"]), int(line["n_correct"]))
        for line in read_csv(folder / "authors_evaluation_log.csv")
    ]


def read_texts(folder: Path = FOLDER) -> Texts:
    """The soups that they evaluated; raises as `paper_search.read_csv`."""
    texts: dict[tuple[str, int], list[str]] = {}
    for line in read_csv(folder / "authors_evaluated_texts.csv"):
        texts.setdefault((line["soup"], int(line["seed"])), []).append(bare(line["text"]))
    return texts


def count(
    log: Iterable[Known],
    *,
    texts: Texts,
    tests: Sequence[TestSet],
    encoder: PromptEncoder,
    params: EvaluateParams,
) -> Iterator[Counted]:
    """Count every line of the log that can be counted here: GPT rows need a dataset's descriptors.

    Args:
        log: theirs.
        texts: theirs.
        tests: datasets of the run, by the paper's names.
        encoder: the model's text side.
        params: token offsets, and their formula.
    """
    soups = [Row(soup, (seed,), tuple(members)) for (soup, seed), members in texts.items()]
    offsets = tuple(params.offsets)
    rows = [Row("class_name", (0,), ("",)), *soups]
    rows += [replace(row, offsets=offsets, offset_formula=params.offset_formula) for row in soups]
    shared = mean_texts(rows, class_rows={}, tests=tests, encoder=encoder)
    by_class = class_rows(tests, seeds=(0,), templates=ensemble_templates())
    for test in tests:
        means = dict(zip(map(_key, rows), shared.of(test), strict=True))
        means |= {_key(row): mean_prompts(row, encoder=encoder) for row in by_class[test.name]}
        for line in (line for line in log if line.dataset == test.name):
            method, mode, with_offsets = ROWS[line.method]
            seed = line.seed if (method, line.seed) in texts else 0
            mean = means.get((method, seed, with_offsets))
            if mean is not None:
                classes = normalize(mean) if mode == "centroid" else mean
                right, near = right_and_near(test.image_features, test.labels, classes)
                yield Counted(line, len(test.labels), right, near)


def _key(row: Row) -> tuple[str, int, bool]:
    return row.method, row.seeds[0], len(row.offsets) > 1


def usual_causes(counted: Sequence[Counted]) -> list[str]:
    """The usual causes of disagreeing counts, judged by which rows and datasets disagree."""
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
    methods = Counter(line.known.method for line in wrong if line.known.dataset not in plain)
    groups = {
        "datasets.<name>.gpt_descriptors, gpt_names, gpt_wording or baseline_template": ("gpt",),
        "baseline_template of the prompt ensemble, or the 80 templates": ("ensemble",),
        "evaluate.offsets or offset_formula": ("word-soup-token", "descriptor-soup-token"),
    }
    for cause, starts in groups.items():
        if affected := [method for method in methods if method.startswith(starts)]:
            causes.append(f"{', '.join(affected)}: {cause}")
    if methods.keys() & {"word-soup", "word-soup-score-average", "descriptor-soup"}:
        causes.append("soups: how a text is joined to the class name (comma, final period)")
    return causes
