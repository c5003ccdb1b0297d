"""The table of rows: what a new baseline takes, and where soups of params.yaml appear by themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from evaluate_cases import evaluate_params
from report_made import ROLES, line, results

from wsoup.base.errors import ParamsError
from wsoup.core.modes import MODES
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate import rows
from wsoup.evaluate.classifiers import pretrained_rows, tuned_rows
from wsoup.evaluate.made_from import made_from
from wsoup.evaluate.right import pack_right, right_by_row
from wsoup.evaluate.rows import Material, Method, Row
from wsoup.report import labels, plots
from wsoup.report.accuracy import averages, finetuned_table, zero_shot_table
from wsoup.report.counts import counts
from wsoup.report.labels import TableRow, soup_rows, table
from wsoup.report.results import Results
from wsoup.report.single_texts import single_texts

PARAMS = evaluate_params()
REVERSED = Method(
    "reversed_words",
    lambda material, seed, m: [word[::-1] for word in material.words[:2]],
    sized=True,
    alone=True,
)
LABEL = {"curve": "reversed words", "alone": "reversed word"}
NEW = TableRow("reversed_words", "Reversed words", REVERSED, **LABEL)


def material(**soups: dict[int, list[str]]) -> Material:
    return Material((1,), ["slab", "keep"], ["which is red"], ["cat"], soups, upper_bound=[])


def results_of(*methods: str, soups: tuple[str, ...]) -> Results:
    """Every method on every dataset, of the pretrained model and of a finetuned one; 50 of 100 right."""
    lines = [
        line(method, name, 1, 50, variant=variant, mode=mode, m=1 if method == "class_name" else 2)
        for method in ("class_name", *methods)
        for name in ROLES
        for variant in (PRETRAINED, "coop")
        for mode in ("centroid", "score_mean")
    ]
    return results(lines, soups=soups)


def everywhere(run: Results, *, method: str, folder: Path) -> dict[str, str]:
    """Each view of the results, as text."""
    single = [line(method, name, 1, 50, text="bals") for name in ROLES]
    store.write_table(folder / "texts.parquet", pa.Table.from_pylist(single))
    tables = {
        "zero-shot": zero_shot_table(run),
        "finetuned": finetuned_table(run, heads=()),
        "single": single_texts(folder / "texts.parquet", results=run),
        "counts": counts(run, together={}),
    }
    return {
        **{name: made.as_csv() for name, made in tables.items()},
        "record": str(averages(run)),
        "figure": str(plots.by_size(run, mode="centroid")),
    }


def test_a_baseline_needs_only_texts_and_a_line_of_the_table(monkeypatch, tmp_path):
    monkeypatch.setattr(rows, "BASELINES", (*rows.BASELINES, REVERSED))
    monkeypatch.setattr(labels, "BEFORE_SOUPS", (*labels.BEFORE_SOUPS, NEW))
    made = material(word={1: ["keep"]})
    assert Row("reversed_words", (1,), ("bals", "peek")) in pretrained_rows(made, params=PARAMS)
    assert Row("reversed_words", (1,), ("bals",), text="bals") in pretrained_rows(made, params=PARAMS)
    assert Row("reversed_words", (1,), ("bals", "peek")) in tuned_rows(
        made, params=PARAMS, seed=1, trained={"members": None}
    )
    run = results_of("reversed_words", "word_soup", soups=("word",))
    for view, text in everywhere(run, method="reversed_words", folder=tmp_path).items():
        assert "reversed word" in text.lower().replace("_", " "), view


@pytest.mark.parametrize("name", ["word", "descriptor", "word_k50"])
def test_a_soup_of_params_appears_in_every_table_and_curve(tmp_path, name):
    run = results_of(f"{name}_soup", soups=(name,))
    for view, text in everywhere(run, method=f"{name}_soup", folder=tmp_path).items():
        assert f"{name}_soup" in text or labels.soup_title(name) in text or labels.soup_label(name) in text, view
    keys = [row.key for row in soup_rows(name)]
    assert keys == [f"{name}_soup", f"{name}_soup_score_mean", f"{name}_soup_offsets"]
    assert set(averages(run)[PRETRAINED]) == {"class_name", *keys[:2]}


def test_labels_are_the_papers_for_its_soups_and_names_for_others():
    assert [row.label for row in soup_rows("word")] == ["Word soup", "Word soup score mean", "Word soup + offset trick"]
    assert soup_rows("word_k50")[0].label == "Soup word_k50"
    assert soup_rows("word_k50")[0].curve == "soup word_k50"


def test_the_papers_soups_come_first_then_others_in_the_order_of_params():
    keys = [row.method.soup for row in table(["b", "word", "a", "descriptor"]) if row.method.soup]
    assert list(dict.fromkeys(keys)) == ["descriptor", "word", "b", "a"]


def test_keys_of_metrics_are_unique_and_stable():
    keys = [row.key for row in table(["descriptor", "word", "word_k50"])]
    assert len(set(keys)) == len(keys)
    assert [row.key for row in table(["descriptor", "word"])] == [
        *("class_name", "ensemble", "gpt_centroids", "gpt_score_mean", "cupl"),
        *("random_descriptors", "random_descriptors_offsets", "waffle", "waffle_offsets", "random_chains"),
        *("descriptor_soup", "descriptor_soup_score_mean", "descriptor_soup_offsets"),
        *("word_soup", "word_soup_score_mean", "word_soup_offsets", "upper_bound"),
        *("ensemble_autoclip", "random_descriptors_autoclip", "random_chains_autoclip"),
        *("descriptor_soup_autoclip", "word_soup_autoclip"),
        *("ensemble_zpe", "random_descriptors_zpe", "random_chains_zpe", "descriptor_soup_zpe", "word_soup_zpe"),
        *("ensemble_zpe_selection", "random_descriptors_zpe_selection", "random_chains_zpe_selection"),
        *("descriptor_soup_zpe_selection", "word_soup_zpe_selection"),
    ], "tests/evaluate/test_rows.py: this list has the key of each row of wsoup/report/labels.py"


def test_rows_with_weighted_texts_are_named_as_compare_names_them():
    """Results have the way of weighing as their mode; `wsoup compare` calls a row of a mode method_mode."""
    for row in table(["word"]):
        if row.mode not in MODES:
            assert row.key == f"{row.method.name}_{row.mode}"
    labels = {row.key: (row.label, row.plain) for row in table(["word"])}
    assert labels["ensemble_zpe"] == ("Ensemble, ZPE", "80 prompt templates, ZPE")
    assert labels["word_soup_autoclip"] == ("Word soup, AutoCLIP", None)


def test_the_table_says_which_rows_see_images_without_labels():
    lines = [line("word_soup", name, 1, 50, mode=mode, m=2) for name in ROLES for mode in ("centroid", "zpe")]
    shown = zero_shot_table(results(lines, soups=("word",)))
    assert [row["method"] for row in shown.rows] == ["Word soup", "Word soup, ZPE"]
    assert "from all of its test images without labels" in shown.as_markdown()
    plain = zero_shot_table(results(lines[::2], soups=("word",)))
    assert "ZPE" not in plain.as_markdown()


def test_what_feeds_a_row_with_weighted_texts():
    params = {"soups": {"word": {"pool": "words"}}}
    by_image = made_from(PRETRAINED, "ensemble_autoclip", params=params)
    assert by_image.keys == ("evaluate.ensemble", "evaluate.weighed")
    assert not by_image.selected
    by_dataset = made_from(PRETRAINED, "ensemble_zpe", params=params)
    assert by_dataset.selected  # the bank: few-shot images
    assert made_from(PRETRAINED, "ensemble", params=params).keys == ("evaluate.ensemble",)
    soup = made_from(PRETRAINED, "word_soup_zpe_selection", params=params)
    assert "artifacts/soups/word" in soup.outs
    assert soup.keys == ("evaluate.weighed",)


def test_a_row_that_no_run_has_is_refused_with_the_nearest():
    with pytest.raises(ParamsError, match=r"^there is no row 'wrod_soup'; did you mean 'word_soup'\?$"):
        made_from(PRETRAINED, "wrod_soup", params={"soups": {"word": {"pool": "words"}}})


def test_right_images_survive_packing_into_bits():
    right = np.random.default_rng(0).random((2, 77)) < 0.5
    about = {"method": "soup", "mode": "centroid", "dataset": "photo", "n_images": 77}
    lines = [{**about, "seed": seed, "right": pack_right(right[seed])} for seed in (1, 0)]
    assert len(lines[0]["right"]) == 10
    assert np.array_equal(right_by_row(lines)["soup", "centroid"]["photo"], right)


# ------------------------------------------------------------------------------------------------ half of a baseline

FULL = Material(
    (1, 2),
    [f"word{i}" for i in range(40)],
    [f"which is {i}" for i in range(40)],
    ["red fox", "cat"],
    {"word": {1: ["slab keep", "bins"], 2: ["hatch", "keep slab bins"]}},
    templates=["a toy {}.".format],
    upper_bound=["which is old"],
)
METHODS = {method.name: method for method in (*rows.BASELINES, rows.UPPER_BOUND)}


class Watched:
    """Material of which it is noted what is read."""

    def __init__(self, given: Material) -> None:
        self._given = given
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> object:
        self.names.add(name)
        return getattr(self._given, name)


def said_of(method: Method) -> set[str]:
    """What a method says that its texts are made from, by the names of `Material`; images decide class names."""
    said = {"source_class_names"} | set(method.pools)
    if method.soup is not None or method.as_long:
        said |= {"soups", "shown"}
    if "candidates.waffle" in method.keys:
        said.add("waffle")
    if "evaluate.survey.m" in method.keys:
        said.add("upper_bound")
    return said


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.texts is not None])
def test_a_method_says_what_its_texts_are_made_from(name):
    """Else `wsoup compare` counts its rows among those that an edit does not feed."""
    method = METHODS[name]
    watched = Watched(FULL)
    by_seed = [method.texts(watched, seed, 4) for seed in (1, 2)]
    where = f"wsoup/evaluate/rows.py: the Method {name!r}"
    unsaid = watched.names - said_of(method)
    assert not unsaid, f"{where} reads {sorted(unsaid)} and does not say so in its pools, keys, soup or as_long"
    if by_seed[0] != by_seed[1]:
        assert method.by_seed, f"{where} has texts of each seed, and by_seed=False"
        assert "seeds" in method.keys or method.soup is not None, f"{where} draws by seed: its keys lack seeds"


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_line_in_tables(name):
    """Without one it is counted and shown nowhere."""
    shown = {row.method.name for row in table(["word"])}
    assert name in shown, f"wsoup/report/labels.py: BEFORE_SOUPS has no TableRow of the Method {name!r}"


def test_random_chains_are_made_from_the_soup_beside_them():
    params = {"soups": {"long": {"pool": "descriptors"}, "word": {"pool": "words"}}}
    made = made_from(PRETRAINED, "random_chains", params=params)
    assert set(made.outs) >= {"artifacts/soups/word", "artifacts/pools"}
    assert (made.pools, made.selected) == (("words",), True)
    del params["soups"]["word"]
    assert "artifacts/soups/long" in made_from(PRETRAINED, "random_chains_zpe", params=params).outs
