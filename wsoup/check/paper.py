"""`wsoup verify paper`: a run against the authors' logs, as far as it has got (`paper_search`, `paper_counts`).

So whoever has weights and images knows in minutes whether this is the paper.
"""

from __future__ import annotations

from typing import Any

from wsoup.check import paper_counts, paper_pools
from wsoup.check.paper_counts import Counted
from wsoup.check.paper_search import Agreement, Checked, best_agrees, ranking, read_log, score, soup_agrees
from wsoup.check.whole import Params
from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.errors import MismatchError
from wsoup.datasets.paper import PAPER
from wsoup.evaluate.testsets import load_tests
from wsoup.search.rank.pools import read_pool
from wsoup.search.rank.source import load_source
from wsoup.soup.soup import Soup
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder


def check_encoder(params: Params) -> None:
    """Raise MismatchError unless images and texts go through the authors' encoder as theirs do."""
    encoder = params.encoder
    wrong = [
        f"encoder.{key} is {ours}, theirs {theirs}"
        for key, ours, theirs in (
            ("model", encoder.model.removesuffix("-quickgelu"), "ViT-B-16"),
            ("pretrained", encoder.pretrained, "openai"),
            ("interpolation", encoder.interpolation, "bilinear"),
            ("decoding", encoder.decoding, "stored"),
            ("image_mean", encoder.image_mean, None),
            ("image_std", encoder.image_std, None),
        )
        if ours != theirs
    ]
    if wrong:
        raise MismatchError(
            f"the authors' logs are of another run: {'; '.join(wrong)}. Begin with `wsoup profile paper`"
        )


def search_differs(params: Params) -> str | None:
    """Why the authors' searches are not of this run's source; None where they are."""
    dataset = params.datasets[params.source]
    settings = {
        "source": (dataset.layout.removeprefix("coop:") if ":" in dataset.layout else params.source, "imagenet"),
        "template": (dataset.template, "a photo of a {}."),
        "fewshot.shots": (params.fewshot.shots, 16),
        "fewshot_pickles": ("given" if dataset.fewshot_pickles else "none", "given"),
    }
    wrong = [f"{key} is {ours}, theirs {theirs}" for key, (ours, theirs) in settings.items() if ours != theirs]
    if not wrong:
        return None
    return (
        f"the authors' searches are of another run: {'; '.join(wrong)}. `wsoup profile paper --fewshot-pickles DIR` "
        "(their datasets/splits/imagenet), then `dvc repro embed_train fewshot`"
    )


def searches(params: Params, *, artifacts: Artifacts, encoder: Encoder) -> tuple[list[Checked], list[Agreement]]:
    """The log of their searches against a run's, as far as the run has got.

    Raises:
        MissingError: stage embed_train or fewshot has not run.
    """
    log = read_log()
    seeds = [seed for seed in params.seeds if any(step.seed == seed for step in log)]
    source = load_source(artifacts, source=params.source, seeds=seeds, encoder=encoder)
    checked = score(log, source=source)
    said = []
    for line in (line for line in checked if line.step.member == 0):
        path = artifacts.scores("words" if line.step.soup == "word" else "descriptors")
        if path.is_file():
            ranked = ranking(path, seed=line.step.seed)
            said.append(best_agrees(line.step, ranked=ranked, within=line.within))
    for seed in seeds:
        steps = [step for step in log if step.soup == "descriptor" and step.seed == seed]
        path = artifacts.soup("descriptor", seed=seed)
        if steps and path.is_file():
            members = Soup.load(path, encoder=encoder.id).texts
            said.append(soup_agrees(steps, members=members, source=source))
    made = {pool: artifacts.pool(pool) for pool in ("words", "descriptors")}
    facts = {pool: paper_pools.facts(read_pool(path)) for pool, path in made.items() if path.is_file()}
    return checked, [*said, *(Agreement(*one) for one in paper_pools.said(facts))]


def tests_here(params: Params, *, artifacts: Artifacts) -> list[dict[str, Any]]:
    """The paper's datasets whose test images are embedded, as the stage evaluated writes them."""
    if not artifacts.evaluated.exists():
        return []
    datasets = store.read_object(artifacts.evaluated)["datasets"]
    here = [name for name in params.datasets if name in PAPER and artifacts.features(name, split="test").exists()]
    return [dataset for dataset in datasets if dataset["name"] in here]


def evaluations(params: Params, *, artifacts: Artifacts, encoder: Encoder) -> list[Counted]:
    """The log of their evaluation against this run's test images, whichever of the 15 datasets are embedded."""
    tests = load_tests(artifacts, datasets=tests_here(params, artifacts=artifacts), encoder=encoder)
    if not tests:
        return []
    return list(
        paper_counts.count(
            paper_counts.read_log(),
            texts=paper_counts.read_texts(),
            tests=tests,
            encoder=PromptEncoder.of(encoder),
            params=params.evaluate,
        )
    )
