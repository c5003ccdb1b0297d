"""Verdicts of a run whose every image is known: what is compared, and the tables and metrics."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from wsoup.base.errors import MissingError
from wsoup.disk import store
from wsoup.evaluate.params import ReportParams
from wsoup.evaluate.rows import pack_right
from wsoup.report.answer import WIDTH, JudgedRun, answer_lines, judge_run, metrics
from wsoup.report.plots import gains
from wsoup.report.verdict_table import verdict_table
from wsoup.search.grow.chains import ChainsSoup
from wsoup.search.grow.sample import SampleSoup

ROLES = {"photo": "source", "pets": "xd", "sketch": "dg"}
GROWTH = {"k0": 1, "k1": 2, "patience": 1, "max_words": 2}
WORD = ChainsSoup(kind="chains", pool="words", m=2, **GROWTH)
SAMPLE = SampleSoup(kind="sample", pool="words", m=2, k1=None)
N = 400
CHANCES = {"class_name": 0.5, "word_soup": 0.8, "random_beside_word": 0.5, "any_soup": 0.5, "random_beside_any": 0.5}
CHANCES |= {"word_all_seeds": 0.8}


def write(folder, *, chances=CHANCES, roles=ROLES, only=None, only_mode=None) -> None:
    """Images that are right with some probability, the same ones for every seed of the class name.

    Only on dataset `only` and in mode `only_mode`, if given, do probabilities differ from the class name's.
    """
    right = []
    for i, (method, chance) in enumerate(chances.items()):
        for mode in ("centroid", "score_mean"):
            for seed in (1, 2, 3):
                draw = np.random.default_rng([0 if method in ("class_name", "word_all_seeds") else seed, i])
                row = {"method": method, "mode": mode, "seed": seed}
                for name, role in roles.items():
                    differs = only in (None, name) and only_mode in (None, mode)
                    is_right = draw.random(N) < (chance if differs else chances["class_name"])
                    about = {"dataset": name, "role": role, "n_images": N, "right": pack_right(is_right)}
                    right.append({**row, **about})
    store.write_table(folder / "pretrained/right.parquet", pa.Table.from_pylist(right))


def write_head(folder, name: str, *, chance: float) -> None:
    """The rows of a head, on the source and on DG."""
    lines = [
        {"method": "word_soup", "mode": "centroid", "seed": seed, "dataset": data, "n_images": N}
        | {"right": pack_right(np.random.default_rng(seed).random(N) < chance)}
        for data in ("photo", "sketch")
        for seed in (1, 2, 3)
    ]
    store.write_table(folder / f"heads/{name}.parquet", pa.Table.from_pylist(lines))


def load(folder, *, soups=None, heads=(), roles=ROLES, mode="centroid") -> JudgedRun:
    report = ReportParams(soup="word", mode=mode, confidence=0.95, gallery=0)
    soups = soups or {"word": WORD, "any": SAMPLE}
    return judge_run(folder, soups=soups, heads=heads, roles=roles, n_classes=dict.fromkeys(roles, 10), report=report)


def judge(folder, *, soups=None, heads=(), roles=ROLES, mode="centroid", **written) -> JudgedRun:
    write(folder, roles=roles, **written)
    return load(folder, soups=soups, heads=heads, roles=roles, mode=mode)


@pytest.fixture
def judgement(tmp_path):
    return judge(tmp_path)


def test_each_soup_is_compared_with_every_available_rival_everywhere(tmp_path):
    judgement = judge(tmp_path, chances=CHANCES | {"ensemble": 0.6})
    rivals = {
        "word": ("class_name", "ensemble", "random", "sample"),
        "any": ("class_name", "ensemble", "random", "word"),
    }
    assert [(judged.soup, judged.rival, judged.role) for judged in judgement.comparisons] == [
        (soup, over, role) for soup, overs in rivals.items() for over in overs for role in ("source", "xd", "dg")
    ]


def test_a_gain_of_thirty_points_is_more_than_noise_and_no_gain_is_noise(judgement):
    assert gains(judgement)[0]["gain"] == pytest.approx(30, abs=8)
    assert all(row["low"] <= row["gain"] <= row["high"] for row in gains(judgement))
    words = {(row["soup"], row["over"], row["on"]): row["verdict"] for row in verdict_table(judgement).rows}
    assert words["word soup", "class name only", "XD mean"] == "better"
    assert words["soup any", "Algorithm 2 (word soup)", "DG mean"] == "worse"
    assert words["soup any", "random texts of the same m", "XD mean"] == "noise"


def test_class_name_templates_soup_and_head_compete_for_the_answer(tmp_path):
    """The head is the best where it has the classes, the soup elsewhere; only the first head competes."""
    write_head(tmp_path, "ridge", chance=0.95)
    write_head(tmp_path, "worse", chance=0.1)
    judgement = judge(tmp_path, chances=CHANCES | {"ensemble": 0.6}, heads=["ridge", "worse"])
    assert [each.use for each in judgement.answers.values()] == ["head", "word soup", "head"]
    everywhere = {key: {"source", "xd", "dg"} for key in ("class_name", "templates", "soup")}
    assert {key: set(places) for key, places in metrics(judgement).items()} == everywhere | {"head": {"source", "dg"}}
    assert metrics(judgement)["head"]["dg"] == pytest.approx(95, abs=2)
    lines = answer_lines(judgement)
    assert len(lines) <= 13
    assert max(map(len, lines)) <= WIDTH
    assert lines[0].startswith("Test images of the source. Use the head: ")
    assert [row["over"] for row in verdict_table(judgement).rows[:3]] == ["class name only"] * 3


def test_without_targets_verdicts_are_about_the_source_alone(tmp_path):
    judgement = judge(tmp_path, roles={"photo": "source"})
    assert list(judgement.answers) == ["source"]
    assert {row["on"] for row in verdict_table(judgement).rows} == {"source"}
    assert {row["place"] for row in gains(judgement)} == {"source"}
    assert metrics(judgement)["soup"].keys() == {"source"}


def test_soups_are_judged_in_the_requested_mode(tmp_path):
    assert judge(tmp_path, mode="score_mean").mode == "score_mean"
    assert judge(tmp_path, mode="paper").mode == "score_mean"
    descriptor = {"descriptor_soup": 0.8, "random_beside_descriptor": 0.5}
    soups = {"descriptor": SAMPLE, "word": WORD}
    judgement = judge(tmp_path, mode="paper", soups=soups, chances=CHANCES | descriptor, only_mode="centroid")
    over_name = [judged for judged in judgement.comparisons if judged.rival == "class_name"]
    words = {(judged.soup, judged.role): judged.fixed.word for judged in over_name}
    assert (words["descriptor", "xd"], words["word", "xd"]) == ("better", "noise")


def test_beating_other_texts_but_not_the_class_name_is_no_gain(tmp_path):
    judgement = judge(tmp_path, chances=CHANCES | {"word_soup": 0.5, "random_beside_word": 0.2, "any_soup": 0.2})
    words = {judged.rival: judged.fixed.word for judged in judgement.comparisons if judged.soup == "word"}
    assert words == {"class_name": "noise", "random": "no gain", "sample": "no gain"}


def test_a_gain_that_hangs_on_one_dataset_names_it(tmp_path):
    roles = {"photo": "source", "pets": "xd", "eurosat": "xd", "cars": "xd"}
    judgement = judge(tmp_path, soups={"word": WORD}, roles=roles, only="eurosat")
    assert {judged.hangs_on for judged in judgement.comparisons if judged.role == "xd"} == {"eurosat"}
    assert {row.get("hangs on") for row in verdict_table(judgement).rows if row["on"] == "XD mean"} == {None, "eurosat"}


def test_the_curve_soup_is_not_judged(tmp_path):
    judgement = judge(tmp_path, soups={"word": WORD, "word_curve": WORD})
    assert {judged.soup for judged in judgement.comparisons} == {"word"}


def test_a_single_dataset_has_no_verdict_for_other_datasets(judgement):
    assert all(judged.resampled is None for judged in judgement.comparisons)
    assert "low, other datasets" not in verdict_table(judgement).rows[0]


def test_p_values_are_corrected_over_all_comparisons_of_the_run(judgement, tmp_path):
    alone = judge(tmp_path, soups={"word": WORD})
    p_values = {(judged.soup, judged.rival, judged.role): judged.fixed.p for judged in judgement.comparisons}
    for judged in alone.comparisons:
        assert judged.fixed.p <= p_values[judged.soup, judged.rival, judged.role]
    assert max(judged.fixed.p for judged in alone.comparisons) < 1e-3 < max(p_values.values())


def test_missing_results_name_the_stage(tmp_path):
    with pytest.raises(MissingError, match="made by stage 'evaluate'"):
        load(tmp_path)
    write(tmp_path)
    with pytest.raises(MissingError, match="made by stage 'head@ridge'"):
        load(tmp_path, heads=["ridge"])
