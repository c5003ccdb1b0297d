"""Plot data by hand, and that each template draws it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
import vl_convert
from pydantic import TypeAdapter
from report_made import both_seeds, results

from wsoup.check.soups import SoupParams
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.report import analyses, plots
from wsoup.report.analyses import cost_table
from wsoup.report.page import FIGURES
from wsoup.report.run import scored
from wsoup.report.verdict import SoupVerdict
from wsoup.soup.member import NOTHING, Cost, Member, Step
from wsoup.soup.soup import Soup
from wsoup.statistics.noise import Verdict

TRACE = (Step("sharp", 5), Step("old", 6))
SOUPS = {
    "word": [Soup("chains", 1, "a {}.", {"model": "m", "pretrained": None}, (Member("sharp old", 6, 10, TRACE),) * 2)],
    "descriptor": [
        Soup(
            "greedy",
            1,
            "a {}.",
            {"model": "m", "pretrained": None},
            tuple(Member(s.added, s.n_correct, 10, (s,)) for s in TRACE),
        )
    ],
}


def costing(ranking: int, search: int) -> list[Soup]:
    """Two seeds, of which the second searched for nothing."""
    costs = [{"ranking": Cost(10, ranking, None), "search": cost} for cost in (Cost(2, 2 * search, None), NOTHING)]
    return [
        Soup("top", seed, "a {}.", {"model": "m", "pretrained": None}, (Member("sharp"),), cost=cost)
        for seed, cost in enumerate(costs)
    ]


COSTS = {"free": costing(0, 0), "dear": costing(10**6, 0), "dearer": costing(10**6, 1000), "dearest": costing(10**9, 0)}
GAINS = [
    SoupVerdict(name, "class_name", "xd", Verdict(1.0, -1.0, 3.0, p=0.5, level=0.05, word="noise"), None, None)
    for name in COSTS
]


@pytest.fixture
def scores(tmp_path):
    counts = {"": 5, "sharp": 9, "old": 2, "new": 7}
    columns = {"text": list(counts) * 2, "seed": [1] * 4 + [2] * 4, "n_correct": [*counts.values(), 0, 0, 0, 0]}
    store.write_table(tmp_path / "words.parquet", pa.table({**columns, "n_images": [10] * 8}))
    return {"words": tmp_path / "words.parquet"}


@pytest.fixture
def surveyed(tmp_path):
    rows = [("", 5, 5), ("sharp", 1, 2), ("old", 2, 4), ("new", 3, 6)]
    lines = [
        {"text": text, "role": role, "n_correct": n, "n_images": 10}
        for text, source, target in rows
        for role, n in (("source", source), ("xd", target), ("dg", target))
    ]
    store.write_table(tmp_path / "descriptors.parquet", pa.Table.from_pylist(lines))
    return tmp_path / "descriptors.parquet"


def test_candidates_are_sorted_and_have_the_class_names_accuracy(scores):
    rows = plots.candidates(scores, seed=1)
    assert [(row["share"], row["accuracy"], row["none"]) for row in rows] == [(0, 90, 50), (50, 70, 50), (100, 20, 50)]


def test_a_long_curve_is_thinned_and_keeps_both_ends(tmp_path):
    table = pa.table({"text": [f"w{i}" for i in range(5000)], "seed": [1] * 5000, "n_correct": list(range(5000))})
    store.write_table(tmp_path / "w.parquet", table.append_column("n_images", [[5000] * 5000]))
    rows = plots.candidates({"words": tmp_path / "w.parquet"}, seed=1)
    assert len(rows) == plots.POINTS
    assert (rows[0]["accuracy"], rows[-1]["accuracy"]) == (99.98, 0.0)
    assert rows[0]["none"] is None


def test_soups_without_a_recorded_cost_are_left_out():
    assert cost_table(GAINS, soups=SOUPS).rows == []


def test_costs_of_soups_by_hand():
    free, _, dearer, _ = cost_table(GAINS, soups=COSTS).rows
    assert (free["thousand tokens"], free["gain, XD mean"]) == (0, 1)
    assert (dearer["texts ranked"], dearer["texts searched"]) == (10, 1)
    figures = [dearer[f"thousand tokens{part}"] for part in (" ranked", " searched", "")]
    assert figures == [1000, 1, 1001]


def test_correlation_of_source_and_targets(surveyed):
    rows = plots.transfer(surveyed)
    assert [row["kind"] for row in rows] == ["class name only", "descriptor", "descriptor", "descriptor"]
    assert rows[1] | {"correlation": None} == {
        "text": "sharp",
        "kind": "descriptor",
        "source": 10.0,
        "target": 20.0,
        "correlation": None,
    }
    assert rows[0]["correlation"] == 1.0


def test_gpt_centroids_are_a_point_of_the_curve_over_m():
    """At the mean number of descriptors of a class."""
    counts = {"imagenet": (1, 1), "dtd": (2, 3), "eurosat": (4, 4), "imagenet_a": (5, 5)}
    run = results(both_seeds("gpt", counts, m=None, texts=5.83))
    drawn = {(row["method"], row["m"], row["mean"]): row["accuracy"] for row in plots.by_size(run, mode="centroid")}
    assert drawn == {("GPT centroids", 5.8, "source"): 1, ("GPT centroids", 5.8, "XD mean"): 3.25,
                     ("GPT centroids", 5.8, "DG mean"): 5}  # fmt: skip


def test_scores_of_unused_pools_may_be_missing(in_tmp):
    artifacts = Artifacts()
    store.write_table(artifacts.scores("words"), pa.table({"text": [""]}), attributes={})
    soups = {
        pool: TypeAdapter(SoupParams).validate_python({"kind": "sample", "pool": pool, "m": 2, "k1": None})
        for pool in ("words", "descriptors")
    }
    assert list(scored({"word": soups["words"]}, artifacts=artifacts)) == ["words"]
    # Reading the missing file raises the error.
    assert list(scored({"it": soups["descriptors"]}, artifacts=artifacts)) == ["words", "descriptors"]


def test_every_figure_draws_its_data(scores, surveyed):
    run = results(
        both_seeds("word_soup", {"imagenet": (1, 1), "dtd": (2, 3), "eurosat": (4, 4), "imagenet_a": (5, 5)}),
        soups=("word",),
    )
    data = {
        "gains": [{"row": "word soup", "place": "XD mean", "gain": 1.0, "low": -1.0, "high": 3.0, "verdict": "noise"}],
        "candidates": plots.candidates(scores, seed=1),
        "transfer": plots.transfer(surveyed),
        "accuracy_by_m": plots.by_size(run, mode="centroid"),
        "parameters": plots.parameters(analyses.parameters(run, trained={})),
        "members_kl": [{"method": "ce", "lambda": 0.5, "iteration": i, "kl": 0.1 * i, "std": 0.1} for i in range(3)],
        "training": [
            {"method": "ce", "lambda": 0.5, "mean": mean, "iteration": i, "accuracy": 50.0 + i, "std": 0.1}
            for mean in ("XD mean", "DG mean")
            for i in range(3)
        ],
    }
    assert set(data) == {path.stem for path in plots.TEMPLATES.glob("*.json")}
    for name, rows in data.items():
        assert rows, name
        svg = vl_convert.vegalite_to_svg(plots.figure(name, rows))
        assert "mark-line" in svg or "mark-symbol" in svg, name


@pytest.mark.parametrize("name", FIGURES)
def test_templates_have_dvcs_data_anchor_and_distinguish_revisions(name):
    text = (plots.TEMPLATES / f"{name}.json").read_text()
    assert json.loads(text)["data"] == {"values": "<DVC_METRIC_DATA>"}
    assert '"rev"' in text
    assert "<DVC_METRIC" not in json.dumps(plots.figure(name, []))
    assert '"field": "rev"' not in json.dumps(plots.figure(name, []))
