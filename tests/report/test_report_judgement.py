"""The verdict of a run whose every image is known: what is held against what, and what is said of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from wsoup.core.errors import MissingError
from wsoup.disk import store
from wsoup.evaluate.bits import pack_right
from wsoup.report.judgement import load_judgement
from wsoup.report.verdict import gains, optimism_table, sentence, verdict_metrics, verdict_table
from wsoup.search.grow.params import ChainsSoup, SampleSoup

ROLES = {"photo": "source", "pets": "xd", "sketch": "dg"}
GROWTH = {"k0": 1, "k1": 2, "patience": 1, "max_words": 2}
WORD = ChainsSoup(kind="chains", pool="words", m=2, **GROWTH)
SAMPLE = SampleSoup(kind="sample", pool="words", m=2, k1=None)
N = 400
CHANCES = {"class_name": 0.5, "word_soup": 0.8, "random_beside_word": 0.5, "any_soup": 0.5, "random_beside_any": 0.5}


def write(folder, *, chances=CHANCES, roles=ROLES, only=None) -> None:
    """Images that are right by chance, the same ones for the class name whatever the seed.

    `only` is the one dataset where chances differ from the class name's.
    """
    right, selection = [], []
    for i, (method, chance) in enumerate(chances.items()):
        for mode in ("centroid", "score_mean"):
            for seed in (1, 2, 3):
                draw = np.random.default_rng([0 if method == "class_name" else seed, i])
                row = {"method": method, "mode": mode, "seed": seed}
                for name, role in roles.items():
                    is_right = draw.random(N) < (chance if only in (None, name) else chances["class_name"])
                    about = {"dataset": name, "role": role, "n_images": N, "right": pack_right(is_right)}
                    right.append({**row, **about})
                selection.append({**row, "n_correct": 9 if method == "word_soup" else 6, "n_images": 10})
    store.write_table(folder / "pretrained/right.parquet", pa.Table.from_pylist(right))
    store.write_table(folder / "pretrained/selection.parquet", pa.Table.from_pylist(selection))


@pytest.fixture
def judgement(tmp_path):
    write(tmp_path)
    return load_judgement(tmp_path, soups={"word": WORD, "any": SAMPLE}, roles=ROLES, confidence=0.95)


def test_each_soup_is_held_against_what_there_is_of_the_four(judgement):
    assert [(judged.soup, judged.over, judged.role) for judged in judgement.comparisons] == [
        (soup, over, role)
        for soup, overs in {"word": ("class_name", "random", "sample"), "any": ("class_name", "random", "word")}.items()
        for over in overs
        for role in ("xd", "dg")
    ]


def test_a_gain_of_thirty_points_is_more_than_noise_and_none_is_noise(judgement):
    words = {(row["soup"], row["over"], row["role"]): row["verdict"] for row in verdict_table(judgement).rows}
    assert words["word soup", "class name only", "XD"] == "better"
    assert words["soup any", "Algorithm 2 (word soup)", "DG"] == "worse"
    assert words["soup any", "random texts of the same m", "XD"] == "noise"


def test_gains_are_the_difference_of_accuracies_and_lie_in_their_intervals(judgement):
    for row in gains(judgement):
        assert row["low"] <= row["gain"] <= row["high"]
    assert gains(judgement)[0]["gain"] == pytest.approx(30, abs=8)


def test_the_sentence_says_what_is_sure_and_what_is_not(judgement):
    text = sentence(judgement)
    assert text.startswith("More than noise over the class name only: word soup +")
    assert "No more than noise: soup any" in text
    assert "this run could have seen differences from" in text
    assert ". Better than a sample of the ranking by more than noise: word soup +" in text
    assert text.count(". ") == 2


def test_a_soup_that_is_worse_is_not_listed_as_more_than_noise(tmp_path):
    write(tmp_path, chances=CHANCES | {"any_soup": 0.2})
    text = sentence(load_judgement(tmp_path, soups={"word": WORD, "any": SAMPLE}, roles=ROLES, confidence=0.95))
    better, worse = text.split(". ")[:2]
    assert better.startswith("More than noise over the class name only: word soup +")
    assert "any" not in better
    assert worse.startswith("Worse than the class name only: soup any -")


def test_a_soup_that_beats_other_texts_and_not_the_class_name_is_no_better(tmp_path):
    write(tmp_path, chances=CHANCES | {"word_soup": 0.5, "random_beside_word": 0.2, "any_soup": 0.2})
    made = load_judgement(tmp_path, soups={"word": WORD, "any": SAMPLE}, roles=ROLES, confidence=0.95)
    words = {judged.over: judged.fixed.word for judged in made.comparisons if judged.soup == "word"}
    assert words == {"class_name": "noise", "random": "no gain", "sample": "no gain"}
    assert sentence(made).endswith("No search is better than a sample of the ranking by more than noise.")


def test_a_gain_that_hangs_on_one_dataset_says_on_which(tmp_path):
    roles = {"photo": "source", "pets": "xd", "eurosat": "xd", "cars": "xd"}
    write(tmp_path, roles=roles, only="eurosat")
    made = load_judgement(tmp_path, soups={"word": WORD}, roles=roles, confidence=0.95)
    assert {judged.hangs_on for judged in made.comparisons} == {"eurosat"}
    assert "points on XD (on these datasets; not beyond them) (hangs on eurosat)." in sentence(made)
    assert verdict_table(made).rows[0]["hangs on"] == "eurosat"
    assert verdict_metrics(made)["word_soup"]["over_class_name"]["xd"]["hangs_on"] == "eurosat"


def test_where_nothing_is_sure_the_sentence_begins_with_that(tmp_path):
    write(tmp_path, chances=CHANCES | {"word_soup": 0.5})
    made = load_judgement(tmp_path, soups={"word": WORD}, roles=ROLES, confidence=0.95)
    assert sentence(made).startswith("No soup's gain over the class name only is more than noise: word soup ")


def test_the_sentence_says_where_a_search_adds_nothing_to_a_sample(tmp_path):
    write(tmp_path, chances=CHANCES | {"any_soup": 0.8})
    made = load_judgement(tmp_path, soups={"word": WORD, "any": SAMPLE}, roles=ROLES, confidence=0.95)
    assert sentence(made).endswith(". No search is better than a sample of the ranking by more than noise.")


def test_the_soup_that_only_draws_a_curve_is_not_judged(tmp_path):
    write(tmp_path)
    made = load_judgement(tmp_path, soups={"word": WORD, "word_curve": WORD}, roles=ROLES, confidence=0.95)
    assert {judged.soup for judged in made.comparisons} == {"word"}


def test_a_single_dataset_says_nothing_of_others(judgement):
    assert all(judged.resampled is None for judged in judgement.comparisons)
    assert "low, other datasets" not in verdict_table(judgement).rows[0]
    assert "other_datasets" not in verdict_metrics(judgement)["word_soup"]["over_class_name"]["xd"]


def test_optimism_is_what_is_lost_beyond_the_class_names_own_loss(judgement):
    row = optimism_table(judgement).rows[0]
    assert row["selection images"] == pytest.approx(90)
    assert row["difference"] == pytest.approx(90 - row["held-out images"])
    assert row["optimism"] == pytest.approx(row["difference"] - row["difference, class name only"])


def test_p_values_are_corrected_over_all_comparisons_of_the_run(judgement, tmp_path):
    alone = load_judgement(tmp_path, soups={"word": WORD}, roles=ROLES, confidence=0.95)
    p_values = {(judged.soup, judged.over, judged.role): judged.fixed.p for judged in judgement.comparisons}
    for judged in alone.comparisons:
        assert judged.fixed.p <= p_values[judged.soup, judged.over, judged.role]
    assert max(judged.fixed.p for judged in alone.comparisons) < 1e-3 < max(p_values.values())


def test_without_evaluation_the_stage_is_named(tmp_path):
    with pytest.raises(MissingError, match="made by stage 'evaluate'"):
        load_judgement(tmp_path, soups={"word": WORD}, roles=ROLES, confidence=0.95)
