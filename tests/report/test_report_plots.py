"""Plot data by hand, and that each template draws it."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest
import vl_convert
from pydantic import TypeAdapter
from report_made import CLASS_NAME, both_seeds, results

from wsoup.base import project
from wsoup.disk import store
from wsoup.finetune.params import MethodParams
from wsoup.report import plots, plots_landscape, plots_training
from wsoup.report.figures import FIGURES, figure
from wsoup.report.page import script_json
from wsoup.report.svg import write_points
from wsoup.report.tables import Table

TEMPLATES = project.file("data/plots")


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


def method(weight: float | None, soup: str = "word") -> MethodParams:
    loss = {"kind": "cross_entropy"} | ({"lambda": weight, "teacher_logit_scale": 10} if weight else {})
    values = {"tune": {"kind": "prompt", "tokens": 3}, "loss": loss, "soup": soup}
    return TypeAdapter(MethodParams).validate_python({**values, "learning_rate": 1e-4, "prompt_factor": 10})


METHODS = {"half": method(0.5), "plain": method(None), "one_text": method(None, soup="class_name")}


def test_candidates_are_sorted_and_have_the_class_names_accuracy(scores):
    rows = plots.candidates(scores, seed=1)
    assert [(row["rank"], row["accuracy"], row["none"]) for row in rows] == [(1, 90, 50), (2, 70, 50), (3, 20, 50)]


def test_a_long_curve_is_thinned_and_keeps_both_ends(tmp_path):
    table = pa.table({"text": [f"w{i}" for i in range(5000)], "seed": [1] * 5000, "n_correct": list(range(5000))})
    store.write_table(tmp_path / "w.parquet", table.append_column("n_images", [[5000] * 5000]))
    rows = plots.candidates({"words": tmp_path / "w.parquet"}, seed=1)
    assert len(rows) == plots.POINTS
    assert (rows[0]["accuracy"], rows[-1]["accuracy"]) == (99.98, 0.0)
    assert (rows[0]["rank"], rows[-1]["rank"]) == (1, 5000), "a thinned curve keeps the ranks of the whole pool"
    assert rows[0]["none"] is None


def test_correlation_of_source_and_targets(surveyed):
    rows = plots.transfer(surveyed)
    assert [row["kind"] for row in rows] == ["class name only", "descriptor", "descriptor", "descriptor"]
    assert (rows[1]["text"], rows[1]["source"], rows[1]["target"]) == ("sharp", 10.0, 20.0)
    assert rows[0]["correlation"] == 1.0
    two = surveyed.with_name("two.parquet")
    lines = store.read_table(surveyed).to_pylist()
    kept = {rows[0]["text"], "", rows[1]["text"], rows[2]["text"]}
    store.write_table(two, pa.Table.from_pylist([line for line in lines if line["text"] in kept]))
    assert [row["correlation"] for row in plots.transfer(two)] == [None] * 3, "any line goes through two points"


def test_a_text_cannot_end_the_script_of_dvcs_page(tmp_path):
    """`dvc plots show` writes data into a script element, where a text is HTML."""
    from dvc_render.html import render_html
    from dvc_render.vega import VegaRenderer

    text = "which </script><script>alert(1)</script> is"
    lines = [{"text": text, "role": role, "n_correct": 1, "n_images": 2} for role in ("source", "xd")]
    store.write_table(tmp_path / "descriptors.parquet", pa.Table.from_pylist(lines))
    rows = plots.transfer(tmp_path / "descriptors.parquet")
    template = TEMPLATES / "transfer.json"
    renderer = VegaRenderer([{**row, "rev": "workspace"} for row in rows], "transfer", template=str(template))
    render_html([renderer], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "alert(1)" in page
    assert "<script>alert(1)" not in page


@pytest.mark.parametrize("odd", ["\u202e", "\u2066", "\u200f", "\x1b", "\u2028"])
def test_names_in_figures_turn_no_text_round(tmp_path, odd):
    """As in CSV files: on the page, where a script draws the figure, and in SVG files."""
    row = {"text": f"d{odd}og", "source": 1.0, "target": 2.0, "correlation": 0.5}
    assert odd not in str(figure("transfer", [row])["data"]["values"])
    points = [{"label": f"d{odd}og", "family": f"d{odd}og", "gflops": 10.0, "imagenet": 70.0}]
    drawn = write_points(tmp_path / "models.svg", points, name="models").read_text()
    assert odd not in drawn
    assert re.search(r"d\\[ux]\w+og", drawn)
    assert odd not in script_json([figure("transfer", [row])])
    assert odd not in Table("by_class", "by class", ["class"], [{"class": f"d{odd}og"}]).as_markdown()


def test_gpt_centroids_are_a_point_of_the_curve_over_m():
    """At the mean number of descriptors of a class."""
    counts = {"imagenet": (1, 1), "dtd": (2, 3), "eurosat": (4, 4), "imagenet_a": (5, 5)}
    run = results(both_seeds("gpt", counts, m=None, texts=5.83))
    drawn = {(row["method"], row["m"], row["mean"]): row["accuracy"] for row in plots.by_size(run, mode="centroid")}
    assert drawn == {("GPT centroids", 5.8, "source"): 1, ("GPT centroids", 5.8, "XD mean"): 3.25,
                     ("GPT centroids", 5.8, "DG mean"): 5}  # fmt: skip


def test_accuracy_against_the_number_of_members():
    drawn = plots.by_size(results(soups=("word",)), mode="centroid")
    assert [(row["method"], row["m"], row["accuracy"]) for row in drawn if row["mean"] == "XD mean"] == [
        ("word soup", 1, 1.0),
        ("word soup", 2, 35.0),
    ]


def test_accuracy_against_numbers_stored():
    word = dict.fromkeys(CLASS_NAME, (5, 5))
    lines = both_seeds("word_soup", word, m=2, stored=7) + both_seeds("class_name", word, variant="ce", stored=0)
    lines += both_seeds("word_soup", word, variant="ce", m=2, stored=7)
    lines += both_seeds("descriptor_soup", word, variant="ce", m=2, stored=7)  # as in the paper, not shown
    rows = plots.parameters(results(lines, parameters={"ce": 1000}), trained={"ce": "last_blocks"})
    shown = [row for row in rows if row["mean"] == "DG mean"]
    assert [(row["method"], row["trained"], row["texts"], row["stored"]) for row in shown] == [
        ("Word soup m=2", "nothing", "word soup", 7.0),
        ("ce", "last_blocks", "class name", 1000.0),
        ("ce + word soup", "last_blocks", "word soup", 1007.0),
    ]
    assert {row["accuracy"] for row in rows} == {5}


def test_divergence_has_every_logged_iteration_with_its_mean_over_seeds():
    """Only methods trained over a soup have any."""
    logged = {"half": [[(0, 0.2), (20, 0.1)], [(0, 0.4), (20, 0.3)]], "plain": [[(20, 0.0)], [(20, 0.1)]]}
    rows = plots_training.members_kl(
        results(members_kl=logged | {"one_text": [[(20, 0.3)]] * 2, "head": []}), methods=METHODS
    )
    assert [(row["method"], row["lambda"], row["iteration"], row["kl"]) for row in rows] == [
        ("half", 0.5, 0, 0.3),
        ("half", 0.5, 20, 0.2),
        ("plain", 0.0, 20, 0.05),
    ]
    assert rows[0]["std"] == pytest.approx(0.1414, abs=1e-4)
    assert plots_training.members_kl(results(), methods=METHODS) == []


def test_a_seed_whose_members_are_equal_counts_as_no_divergence():
    """Its log of the divergence is empty; the other seed's 0.4 becomes a mean of 0.2, at its own iterations."""
    logged = {"half": [[], [(0, 0.4), (20, 0.2)]]}
    rows = plots_training.members_kl(results(members_kl=logged), methods=METHODS)
    assert [(row["iteration"], row["kl"]) for row in rows] == [(0, 0.2), (20, 0.1)]


def test_accuracy_during_training_is_a_mean_over_datasets_and_then_over_seeds():
    counts = {"imagenet": (50, 60), "dtd": (10, 20), "eurosat": (30, 40), "imagenet_a": (5, 5)}
    lines = [
        [seed, i, name, pair[seed - 1] + i, 100] for seed in (1, 2) for i in (0, 2) for name, pair in counts.items()
    ]
    points = plots_training.training(results(training={"half": lines}), methods=METHODS)
    assert [(row["mean"], row["iteration"], row["accuracy"], row["lambda"]) for row in points] == [
        ("DG mean", 0, 5, 0.5), ("DG mean", 2, 7, 0.5), ("XD mean", 0, 25, 0.5), ("XD mean", 2, 27, 0.5),
        ("source", 0, 55, 0.5), ("source", 2, 57, 0.5),
    ]  # fmt: skip
    assert points[2]["std"] == pytest.approx(7.071, abs=1e-3)
    assert plots_training.training(results(), methods=METHODS) == []


@pytest.fixture
def landscape(tmp_path):
    """Four corners and a point beyond each line: one source and two targets of 10 images, counted by hand."""
    counts = {
        (0.0, 0.0): (5, 2, 4),
        (1.0, 0.0): (6, 2, 2),
        (0.0, 1.0): (9, 4, 5),
        (1.0, 1.0): (8, 5, 5),
        (2.0, 0.0): (1, 0, 0),
        (0.0, 2.0): (0, 1, 1),
    }
    lines = []
    for (x, y), n_correct in counts.items():
        for name, role, n in zip(("a", "b", "c"), ("source", "xd", "xd"), n_correct, strict=True):
            lines.append({"x": x, "y": y, "dataset": name, "role": role, "seed": 1, "n_correct": n, "n_images": 10})
    store.write_table(tmp_path / "soft.parquet", pa.Table.from_pylist(lines), attributes={})
    return {"soft": tmp_path / "soft.parquet"}


def test_a_landscape_has_losses_averaged_over_targets(landscape):
    errors = {(row["mean"], row["x"], row["y"]): row["error"] for row in plots_landscape.plane(landscape)}
    train, targets = "training images", "mean of the targets"
    assert errors == {
        (train, 0, 0): 50, (train, 1, 0): 40, (train, 0, 1): 10, (train, 1, 1): 20,
        (targets, 0, 0): 70, (targets, 1, 0): 80, (targets, 0, 1): 55, (targets, 1, 1): 50,
    }  # fmt: skip
    assert {row["method"] for row in plots_landscape.plane(landscape)} == {"soft"}
    assert plots_landscape.plane({}) == []


def test_the_lines_of_a_landscape_go_from_the_tuned_point_beyond_the_initialisations(landscape):
    rows = [row for row in plots_landscape.lines(landscape) if row["mean"] == "training images"]
    places = {(row["line"], row["place"]): row["error"] for row in rows}
    soup, random = plots_landscape.TO_SOUP, plots_landscape.TO_RANDOM
    assert places == {
        (soup, 0): 50, (soup, 1): 40, (soup, 2): 90, (random, 0): 50, (random, 1): 10, (random, 2): 100
    }  # fmt: skip


def test_a_landscape_is_linear_between_measured_points(landscape):
    points = plots_landscape.plane(landscape)
    drawn = plots_landscape.interpolated(points)
    assert len(drawn) == 2 * (plots_landscape.FINER + 1) ** 2
    for point in points:
        assert point in drawn
    errors = {(row["x"], row["y"]): row["error"] for row in drawn if row["mean"] == "training images"}
    assert errors[0.25, 0] == 47.5
    assert errors[0, 0.75] == 20
    assert errors[0.25, 0.75] == 21.25  # a quarter of 47.5 and three of 12.5


def test_a_landscape_without_targets_has_no_empty_panel(landscape):
    rows = [row for row in plots_landscape.plane(landscape) if row["mean"] == "training images"]
    svg = vl_convert.vegalite_to_svg(figure("landscape", rows))
    assert ">training images<" in svg
    assert "mean of the targets" not in svg


def test_corners_of_a_landscape_are_named(landscape):
    svg = vl_convert.vegalite_to_svg(figure("landscape", plots_landscape.plane(landscape)))
    places = {}
    for name in ("A", "B", "tuned"):
        x, y = re.findall(rf"translate\(([-\d.]+),([-\d.]+)\)[^>]*>{name}</text>", svg)[0]
        places[name] = float(x), float(y)
    assert places["tuned"][0] == places["A"][0] < places["B"][0]
    assert places["tuned"][1] == places["B"][1] > places["A"][1]


def test_every_figure_draws_its_data(scores, surveyed, landscape):
    run = results(
        both_seeds("word_soup", {"imagenet": (1, 1), "dtd": (2, 3), "eurosat": (4, 4), "imagenet_a": (5, 5)}),
        soups=("word",),
    )
    trained = {"method": "ce", "lambda": 0.5, "std": 0.1}
    data = {
        "gains": [{"row": "word soup", "place": "XD mean", "gain": 1.0, "low": -1.0, "high": 3.0, "verdict": "noise"}],
        "candidates": plots.candidates(scores, seed=1),
        "transfer": plots.transfer(surveyed),
        "accuracy_by_m": plots.by_size(run, mode="centroid"),
        "parameters": plots.parameters(run, trained={}),
        "members_kl": [{**trained, "iteration": i, "kl": 0.1 * i} for i in range(3)],
        "training": [{**trained, "mean": "XD mean", "iteration": i, "accuracy": 50.0 + i} for i in range(3)],
        "landscape": plots_landscape.plane(landscape),
        "landscape_lines": plots_landscape.lines(landscape),
    }
    assert set(data) == {path.stem for path in TEMPLATES.glob("*.json")}
    for name, rows in data.items():
        assert rows, name
        svg = vl_convert.vegalite_to_svg(figure(name, rows))
        assert "mark-line" in svg or "mark-symbol" in svg, name


def test_no_bar_of_the_gains_touches_the_frame():
    """An interval that ends at a tick of the axis, as 60, would end in the frame, which is 270 wide."""
    gains = [("80 templates", 0.5, -0.4, 1.2, "noise"), ("head", 55.4, 50.9, 60.0, "better")]
    keys = ("row", "gain", "low", "high", "verdict")
    rows = [{"place": "source", **dict(zip(keys, gain, strict=True))} for gain in gains]
    svg = vl_convert.vegalite_to_svg(figure("gains", rows))
    lines = re.findall(r'<line [^>]*translate\(([\d.]+),[\d.]+\)" x2="(-?[\d.]+)"[^>]*stroke="#2e9e5b"', svg)
    ends = [max(float(start), float(start) + float(length)) for start, length in lines]
    assert len(ends) == 1
    assert 200 < ends[0] < 262


@pytest.mark.parametrize("name", FIGURES)
def test_templates_have_dvcs_data_anchor_and_distinguish_revisions(name):
    text = (TEMPLATES / f"{name}.json").read_text()
    assert json.loads(text)["data"] == {"values": "<DVC_METRIC_DATA>"}
    assert '"rev"' in text
    assert "<DVC_METRIC" not in json.dumps(figure(name, []))
    assert '"field": "rev"' not in json.dumps(figure(name, []))
