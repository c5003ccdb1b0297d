"""`wsoup verify paper`: a run compared with the authors' logs, as far as the run has got.

Whoever has weights and images learns in minutes whether theirs is the paper's setting. Two logs are compared: of their
searches (`wsoup.paper.searches`), and of their evaluation on the paper's 15 datasets, whose texts are counted again
here, so that nothing depends on a search of ours. data/paper/authors_evaluation_log.csv holds its integer counts
(Chris210634/word_soups, example_logs/example_run_pt_eval_ViT-B-16_openai_output.txt): nine rows, three seeds;
authors_evaluated_texts.csv holds the soups.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from wsoup.base.errors import MismatchError
from wsoup.core.prompts import bare
from wsoup.core.scoring import normalize
from wsoup.datasets.paper import PAPER
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.evaluate.classifiers import class_rows
from wsoup.evaluate.counts import mean_texts
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.rows import Material, Row
from wsoup.evaluate.testsets import TestSet, load_tests
from wsoup.paper import coverage, searches, tables
from wsoup.paper.searches import Compared, Verdict, right_and_near
from wsoup.paper.settings import Settings
from wsoup.search.rank.pools import read_pool
from wsoup.search.rank.source import Run, load_source
from wsoup.soup.soup import Soup
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder
from wsoup.towers.models import ensemble_templates

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
CAUSES = {
    "gpt": "datasets.<name>.gpt_descriptors, gpt_names, gpt_wording or baseline_template",
    "ensemble": "baseline_template of the prompt ensemble, or the 80 templates",
    "word-soup-token-offset": "evaluate.offsets or offset_formula",
    "descriptor-soup-token-offset": "evaluate.offsets or offset_formula",
    "word-soup": "how a text is joined to the class name (comma, final period)",
    "descriptor-soup": "how a text is joined to the class name (comma, final period)",
}
"""Beginning of a row's name -> what usually makes it differ where the class name alone agrees; the first that fits."""
Texts = Mapping[tuple[str, int], Sequence[str]]
"""(word or descriptor, seed) -> members, bare."""


class Known(NamedTuple):
    """A line of their evaluation log; `dataset` by our name."""

    method: str
    seed: int
    dataset: str
    n_images: int
    n_correct: int


def check_encoder(run: Settings) -> None:
    """Raise MismatchError unless images and texts go through the authors' encoder as theirs do."""
    fixed, (model, tag) = Settings.of_paper().values, tables.ENCODER
    keys = ("interpolation", "decoding", "image_mean", "image_std")
    theirs = {
        "encoder.model": model,
        "encoder.pretrained": tag,
        **{f"encoder.{k}": fixed[f"encoder.{k}"] for k in keys},
    }
    ours = {**run.values, "encoder.model": str(run.values["encoder.model"]).removesuffix(tables.QUICK_GELU)}
    different = _differences(ours, theirs)
    if different:
        raise MismatchError(f"the authors' logs are of another run: {different}. Begin with `wsoup profile paper`")


def search_differs(run: Settings) -> str | None:
    """Why the authors' searches cannot be compared with this run's source; None if they can."""
    dataset = run.section(f"datasets.{run.values['source']}")
    layout = str(dataset["layout"])
    ours = {
        "source": layout.removeprefix("coop:") if ":" in layout else run.values["source"],
        "template": dataset["template"],
        "fewshot.shots": run.values["fewshot.shots"],
        "fewshot_pickles": "given" if dataset.get("fewshot_pickles") else "none",
    }
    theirs = {"source": "imagenet", "template": "a photo of a {}.", "fewshot.shots": 16, "fewshot_pickles": "given"}
    if not (different := _differences(ours, theirs)):
        return None
    return (
        f"the authors' searches are of another run: {different}. `wsoup profile paper --fewshot-pickles DIR` (their "
        "datasets/splits/imagenet), then `dvc repro embed_train fewshot`"
    )


def _differences(ours: Mapping[str, object], theirs: Mapping[str, object]) -> str:
    """The settings of theirs that ours has another value of."""
    return "; ".join(f"{key} is {ours[key]}, theirs {value}" for key, value in theirs.items() if ours[key] != value)


def search_log(
    seeds: Sequence[int], *, source: str, artifacts: Artifacts, encoder: Encoder
) -> tuple[list[Compared], list[Verdict]]:
    """Compare the log of their searches with a run of some seeds, as far as the run has got.

    Raises:
        MissingError: stage embed_train or fewshot has not run.
    """
    log = [step for step in searches.read_searches() if step.seed in seeds]
    logged = sorted({step.seed for step in log})
    images = load_source(Run(Owner("verify", {}, {}), source, tuple(logged), encoder, artifacts))
    compared, verdicts = searches.score(log, source=images), []
    for step, line in compared.items():
        scores = artifacts.scores(f"{step.soup}s")
        if step.member == 0 and scores.is_file():
            verdicts.append(searches.best_agrees(step, scores=scores, within=line.within))
    for seed in logged:
        steps = [step for step in log if step.soup == "descriptor" and step.seed == seed]
        path = artifacts.soup("descriptor", seed=seed)
        if steps and path.is_file():
            members = Soup.load(path, encoder=encoder.id).texts
            verdicts.append(searches.soup_agrees(steps, members=members, source=images))
    paths = {pool: artifacts.pool(pool) for pool in ("words", "descriptors")}
    ours = {pool: coverage.facts(read_pool(path)) for pool, path in paths.items() if path.is_file()}
    return list(compared.values()), [*verdicts, *coverage.compare(ours)]


def tests_here(artifacts: Artifacts) -> list[dict[str, object]]:
    """The paper's datasets whose test images are embedded, as the stage evaluated writes them."""
    if not artifacts.evaluated.exists():
        return []
    return [
        dataset
        for dataset in store.read_object(artifacts.evaluated)["datasets"]
        if dataset["name"] in PAPER and artifacts.features(dataset["name"], split="test").exists()
    ]


def evaluation_log(params: EvaluateParams, *, artifacts: Artifacts, encoder: Encoder) -> list[Compared]:
    """Compare the log of their evaluation with this run, on whichever of the 15 datasets are embedded."""
    tests = load_tests(artifacts, datasets=tests_here(artifacts), encoder=encoder)
    if not tests:
        return []
    texts = PromptEncoder.of(encoder)
    return list(count(read_counts(), texts=read_texts(), tests=tests, encoder=texts, params=params))


def read_counts() -> list[Known]:
    """Their counts."""
    names = {paper.title.replace("-", ""): name for name, paper in PAPER.items()}
    return [
        Known(line["method"], int(line["seed"]), names[line["dataset"]], int(line["n_images"]), int(line["n_correct"]))
        for line in tables.read("authors_evaluation_log")
    ]


def read_texts() -> Texts:
    """The soups that they evaluated."""
    texts: dict[tuple[str, int], list[str]] = {}
    for line in tables.read("authors_evaluated_texts"):
        texts.setdefault((line["soup"], int(line["seed"])), []).append(bare(line["text"]))
    return texts


def count(
    log: Iterable[Known],
    *,
    texts: Texts,
    tests: Sequence[TestSet],
    encoder: PromptEncoder,
    params: EvaluateParams,
) -> Iterator[Compared]:
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
    rows += class_rows(Material((0,), templates=ensemble_templates()), tests)
    classifiers = mean_texts(rows, tests=tests, encoder=encoder)
    for test in tests:
        means = {(row.method, row.seeds[0], len(row.offsets) > 1): mean for row, mean in classifiers.of(test)}
        for line in (line for line in log if line.dataset == test.name):
            method, mode, with_offsets = ROWS[line.method]
            seed = line.seed if (method, line.seed) in texts else 0
            mean = means.get((method, seed, with_offsets))
            if mean is not None:
                classes = normalize(mean) if mode == "centroid" else mean
                right, near = right_and_near(test.image_features, test.labels, classes)
                theirs = (line.n_correct, line.n_images)
                yield Compared(line.method, line.seed, line.dataset, *theirs, right, len(test.labels), near)


def usual_causes(lines: Sequence[Compared]) -> list[str]:
    """The usual causes of disagreeing counts, judged by which rows and datasets disagree."""
    wrong = [line for line in lines if not line.agrees]
    plain = {line.on for line in wrong if line.row == "ZS"}
    other_splits = (line for line in wrong if line.of != line.ours_of)
    causes = [f"{line.on}: {line.ours_of:,} test images, theirs {line.of:,}: another split" for line in other_splits]
    if plain and plain == {line.on for line in lines} and len(plain) > 1:
        causes.append("the class name alone, everywhere: weights, activation, resizing, decoding or the template")
    else:
        causes += [f"{name}: class names or their order, template, or split" for name in sorted(plain)]
        rows = dict.fromkeys(line.row for line in wrong if line.on not in plain)
        for row in rows:
            causes.append(f"{row}: {next(cause for start, cause in CAUSES.items() if row.startswith(start))}")
    return list(dict.fromkeys(causes))
