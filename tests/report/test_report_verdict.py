"""Verdicts of a run whose every image is known: what is compared, and the tables and metrics."""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pytest

from wsoup.base.errors import MismatchError, MissingError
from wsoup.disk import store
from wsoup.evaluate.params import ReportParams
from wsoup.evaluate.right import pack_right
from wsoup.report.answer import RunAnswer, judge_run, metrics
from wsoup.report.plots import gains
from wsoup.report.sentences import (
    WIDTH,
    about_intervals,
    answer,
    printed,
    record_accuracy,
    record_searched,
    record_sentences,
)
from wsoup.report.verdict import compare_soups
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


def write_head(folder, name: str, *, chance: float, in_turn=MappingProxyType({})) -> None:
    """The rows of a head, on the source and on DG; `in_turn`: those of all rows where few images are held out."""
    lines = [
        {"method": "word_soup", "mode": "centroid", "seed": seed, "dataset": data, "n_images": N}
        | {"right": pack_right(np.random.default_rng(seed).random(N) < chance)}
        for data in ("photo", "sketch")
        for seed in (1, 2, 3)
    ]
    attributes = {"soup": "word", "in_turn": dict(in_turn)}
    store.write_table(folder / f"heads/{name}.parquet", pa.Table.from_pylist(lines), attributes=attributes)


def write_method(folder, name: str, *, chance: float) -> None:
    """The rows of a finetuned method, everywhere; most are only counted, so which images they get right is not kept."""
    lines = []
    for data in ROLES:
        for seed in (1, 2, 3):
            right = pack_right(np.random.default_rng([seed, 7]).random(N) < chance)
            for method, kept in (("word_soup", right), ("waffle", None)):
                where = {"method": method, "mode": "centroid", "seed": seed, "dataset": data, "n_images": N}
                lines.append({**where, "right": kept})
    store.write_table(folder / f"{name}.parquet", pa.Table.from_pylist(lines))


def load(
    folder, *, soups=None, methods=None, without=None, heads=(), roles=ROLES, mode="centroid", **about
) -> RunAnswer:
    report = ReportParams(soup="word", mode=mode, confidence=0.95, gallery=0, **about)
    return judge_run(
        folder,
        soups=soups or {"word": WORD, "any": SAMPLE},
        methods=methods or {},
        without=without,
        heads={name: {"kind": "means" if name == "means" else "both", "soup": "word"} for name in heads},
        roles=roles,
        n_classes=dict.fromkeys(roles, 10),
        report=report,
    )


def answer_lines(judged: RunAnswer) -> list[str]:
    return printed(record_sentences(judged), record_accuracy(judged))


def judge(folder, *, chances=CHANCES, only=None, only_mode=None, roles=ROLES, **about) -> RunAnswer:
    write(folder, roles=roles, chances=chances, only=only, only_mode=only_mode)
    return load(folder, roles=roles, **about)


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


def test_each_place_is_a_question_of_its_own(tmp_path):
    """More places do not widen the intervals of one: rivals are corrected together there, and nowhere else."""
    for roles in (ROLES, {"photo": "source"}):
        judged = judge(tmp_path, roles=roles)
        levels = [each.fixed.level for each in judged.comparisons if each.soup == "word"]
        assert len(levels) == 3 * len(roles)
        assert min(levels) == pytest.approx(0.05 / 3), "of three rivals on one place, not of nine comparisons"


def test_a_soup_is_compared_with_the_sample_of_its_own_pool(tmp_path):
    """The first sample, of the other pool, gets 0.9 of the images; the one of words gets 0.5, and the soup 0.8."""
    chances = CHANCES | {"other_soup": 0.9, "random_beside_other": 0.5}
    other = SampleSoup(kind="sample", pool="descriptors", m=2, k1=None)
    judgement = judge(tmp_path, chances=chances, soups={"other": other, "word": WORD, "any": SAMPLE})
    over_sample = [judged for judged in judgement.comparisons if judged.rival == "sample"]
    assert {(judged.soup, judged.fixed.word) for judged in over_sample} == {("word", "better")}


def test_a_gain_of_thirty_points_is_more_than_noise_and_no_gain_is_noise(judgement):
    assert gains(judgement)[0]["gain"] == pytest.approx(30, abs=8)
    assert all(row["low"] <= row["gain"] <= row["high"] for row in gains(judgement))
    drawn = [(row["row"], row["place"]) for row in gains(judgement)]
    assert len(set(drawn)) == len(drawn) == 2 * 3, "the run's soup once, all seeds together, and the other"
    assert {row for row, _ in drawn} == {"word soup, all seeds", "soup any"}
    words = {(row["soup"], row["over"], row["on"]): row["verdict"] for row in verdict_table(judgement).rows}
    assert words["word soup, mean over seeds", "class name only", "XD mean"] == "better"
    assert words["soup any", "Algorithm 2 (word soup)", "DG mean"] == "worse"
    assert words["soup any", "random texts of the same m", "XD mean"] == "noise"


def test_class_name_templates_soup_and_head_compete_for_the_answer(tmp_path):
    """The head is the best where it has the classes, the soup elsewhere; only the first head competes."""
    write_head(tmp_path, "ridge", chance=0.95)
    write_head(tmp_path, "worse", chance=0.1)
    judgement = judge(tmp_path, chances=CHANCES | {"ensemble": 0.6}, heads=["ridge", "worse"], question="photos")
    used = [said.text.partition(":")[0] for said in answer(judgement)]
    assert used == ["Use the head", "Use the word soup", "Use the head"]
    assert [place.use for place in judgement.answers.values()] == ["head", "soup", "head"]
    everywhere = {key: {"source", "xd", "dg"} for key in ("class_name", "templates", "soup")}
    assert {key: set(places) for key, places in metrics(judgement).items()} == everywhere | {"head": {"source", "dg"}}
    assert metrics(judgement)["head"]["dg"] == pytest.approx(95, abs=2)
    lines = answer_lines(judgement)
    assert len(lines) <= 15
    assert max(map(len, lines)) <= WIDTH
    assert lines[0].startswith("Source. Use the head: ")
    assert [row["over"] for row in verdict_table(judgement).rows[:3]] == ["class name only"] * 3


@pytest.mark.parametrize(("mode", "judged_in_turn"), [("centroid", True), ("score_mean", False)])
def test_rows_are_judged_in_turn_where_the_soup_is_a_centroid_as_it_was_judged_there(tmp_path, mode, judged_in_turn):
    """Beside the head all rows were judged in turn, the soup as a centroid: its score mean is another classifier."""
    in_turn = {"class_name": [0.0] * 60, "soup": [1.0] * 60, "head": [0.5] * 60}
    write_head(tmp_path, "ridge", chance=0.95, in_turn=in_turn)
    source, *_ = answer(judge(tmp_path, heads=["ridge"], question="photos", mode=mode))
    assert ("judged on 60 labelled photos in turn" in source.text) is judged_in_turn
    assert source.text.startswith("Use the word soup: 100.0 %" if judged_in_turn else "Use the head: 9")


def test_the_answer_is_about_the_soup_then_finetuning_then_a_head(tmp_path):
    """0.8 against 0.5 and 0.6 of the images; 0.9 after finetuning; 0.95 with a head, where it has the classes."""
    write_head(tmp_path, "ridge", chance=0.95)
    write_method(tmp_path, "coop_diverse", chance=0.9)
    made = {"heads": ["ridge"], "methods": {"coop": "class_name", "coop_diverse": "word"}, "method": "coop_diverse"}
    judgement = judge(tmp_path, chances=CHANCES | {"ensemble": 0.6}, **made)
    source, xd, dg, finetuned, head = answer(judgement)
    assert [source.about, xd.about, dg.about, finetuned.about, head.about] == [
        "source",
        "xd",
        "dg",
        "finetuned",
        "head",
    ]
    for said in (source, xd, dg):
        assert said.text.startswith("The word soup gets ")
        assert said.text.count("It is better than the ") == 2, "over the class name, over the templates"
    assert finetuned.text.startswith("Finetuned with the word soup (coop_diverse), against the soup alone: source +")
    assert finetuned.text.count(", better") == 3
    assert head.text.startswith("A head, against the soup: source 9")
    assert head.text.count(", better)") == 2, "on the source and on DG, where it has the classes"
    assert list(metrics(judgement)) == ["class_name", "templates", "soup", "finetuned", "head"]
    assert sum(map(len, metrics(judgement).values())) == 14
    assert metrics(judgement)["finetuned"]["xd"] == pytest.approx(90, abs=2)
    lines = answer_lines(judgement)
    assert len(lines) <= 17
    assert max(map(len, lines)) <= WIDTH
    rows = [(row["soup"], row["over"]) for row in verdict_table(judgement).rows[:4]]
    assert rows[0] == ("word soup, all seeds", "class name only")
    assert rows[1] == ("word soup, all seeds", "80 prompt templates")
    assert rows[3] == ("coop_diverse, finetuned", "word soup, all seeds")


def test_a_finetuned_methods_accuracy_is_the_mean_over_datasets(tmp_path):
    """100 and 300 of 400 images: 25 and 75 per cent on the two datasets of XD."""
    roles = {"photo": "source", "pets": "xd", "cars": "xd"}
    lines = []
    for name, n_right in (("photo", 200), ("pets", 100), ("cars", 300)):
        for seed in (1, 2, 3):
            where = {"method": "word_soup", "mode": "centroid", "seed": seed, "dataset": name, "n_images": N}
            lines.append({**where, "right": pack_right(np.arange(N) < n_right)})
    store.write_table(tmp_path / "coop_diverse.parquet", pa.Table.from_pylist(lines))
    judged = judge(tmp_path, roles=roles, methods={"coop_diverse": "word"}, method="coop_diverse")
    assert metrics(judged)["finetuned"] == {"source": 50.0, "xd": 50.0}


def test_other_comparisons_do_not_widen_the_soups_intervals(tmp_path):
    write_method(tmp_path, "coop_diverse", chance=0.9)
    alone = judge(tmp_path)
    beside = load(tmp_path, methods={"coop_diverse": "word"}, method="coop_diverse")
    pair = ("soup", "class_name")
    assert beside.answers["xd"].gains[pair] == alone.answers["xd"].gains[pair]


def test_a_line_says_for_how_many_comparisons_intervals_are_corrected(tmp_path):
    """A head is compared with the soup and the class name: then the method's interval is for four, not for two."""
    write_method(tmp_path, "coop_diverse", chance=0.9)
    write_head(tmp_path, "ridge", chance=0.8)
    method = {"methods": {"coop_diverse": "word"}, "method": "coop_diverse"}
    alone = judge(tmp_path, **method)
    beside = load(tmp_path, heads=["ridge"], **method)
    pair = ("finetuned", "soup")
    narrow, wide = (judged.answers["dg"].gains[pair] for judged in (alone, beside))
    assert narrow.mean == wide.mean
    assert (narrow.together, wide.together) == (2, 4)
    assert narrow.high - narrow.low < wide.high - wide.low
    assert [about_intervals(judged) for judged in (alone, beside)] == [
        f"Intervals: 95%, corrected (Holm) for the comparisons on a place: 1 of the soup, {n} of the other rows. "
        "Each further one, such as another head's, widens them."
        for n in (2, 4)
    ]
    shown = {(row["soup"], row["over"], row["on"]): row["compared together"] for row in verdict_table(beside).rows}
    assert shown["coop_diverse, finetuned", "word soup, all seeds", "DG mean"] == 4
    assert shown["coop_diverse, finetuned", "word soup, all seeds", "XD mean"] == 2, "where there is no head"
    assert shown["word soup, mean over seeds", "class name only", "source"] == 3


def test_the_line_on_intervals_of_rows_that_compete(tmp_path):
    """Soup, class means and head are compared with the class name; the method beside them has four comparisons."""
    write_method(tmp_path, "coop_diverse", chance=0.9)
    for name in ("means", "ridge"):
        write_head(tmp_path, name, chance=0.8)
    method = {"methods": {"coop_diverse": "word"}, "method": "coop_diverse"}
    for about, counted in (
        ({}, "3 with the class name. Each"),
        (method, "3 with the class name, 4 of the finetuned method. Each"),
    ):
        assert counted in about_intervals(judge(tmp_path, heads=["means", "ridge"], question="photos", **about))


def test_a_run_without_a_method_has_no_numbers_of_one(judgement):
    assert list(metrics(judgement)) == ["class_name", "soup"]
    assert [said.about for said in answer(judgement)] == ["source", "xd", "dg"]


def test_a_soup_that_only_guesses_is_said_first(tmp_path):
    chances = dict.fromkeys(CHANCES, 0.1)
    first = answer(judge(tmp_path, chances=chances))[0].text
    assert first.startswith("No better than guessing: the word soup gets ")
    assert first.endswith(" %, and chance is 10.0 %.")


def test_only_the_soup_can_be_no_better_than_guessing(tmp_path):
    """A class name that guesses beside a soup that does not, and the reverse; chance is 10 per cent."""
    guessing = judge(tmp_path, chances=CHANCES | {"class_name": 0.1})
    assert {place.chance for place in guessing.answers.values()} == {None}
    guessing = judge(tmp_path, chances=CHANCES | {"word_all_seeds": 0.1})
    assert [place.chance for place in guessing.answers.values()] == pytest.approx([10.0] * 3)


def test_metrics_have_two_digits(judgement):
    """The class name's, of 400 images, are multiples of a quarter."""
    known = {role: answer.accuracy["class_name"] for role, answer in judgement.answers.items()}
    assert metrics(judgement)["class_name"] == known
    assert any(value != round(value, 1) for value in known.values())


def test_each_soup_has_its_own_random_texts_for_a_rival(tmp_path):
    """0.8 against 0.5 of the images is better, 0.5 against 0.9 worse."""
    judgement = judge(tmp_path, chances=CHANCES | {"random_beside_any": 0.9})
    over_random = [judged for judged in judgement.comparisons if judged.rival == "random"]
    assert {(judged.soup, judged.fixed.word) for judged in over_random} == {("word", "better"), ("any", "worse")}


def test_a_head_that_is_as_good_as_the_soup_is_not_said_to_be_better(tmp_path):
    write_head(tmp_path, "ridge", chance=0.8)
    head = answer(judge(tmp_path, heads=["ridge"]))[-1].text
    assert head.startswith("A head, against the soup: source 8")
    assert head.count("no sure difference)") == 2


def test_a_finetuned_method_is_judged_in_the_mode_of_its_soup(tmp_path):
    """Only its centroids are kept here."""
    write_method(tmp_path, "coop_diverse", chance=0.9)
    made = {"methods": {"coop_diverse": "word"}, "method": "coop_diverse"}
    with pytest.raises(MismatchError, match="does not say which images coop_diverse gets right"):
        judge(tmp_path, mode="score_mean", **made)


def test_the_sentence_says_with_which_texts_a_method_was_trained(tmp_path):
    write_method(tmp_path, "coop", chance=0.9)
    lines = store.read_table(tmp_path / "coop.parquet").to_pylist()
    named = [line | {"method": "class_name"} for line in lines if line["method"] == "word_soup"]
    lines += named + [line | {"method": "any_soup"} for line in named]
    store.write_table(tmp_path / "coop.parquet", pa.Table.from_pylist(lines))
    for soup, texts, other in (
        ("word", "the word soup", "the soup alone"),
        ("class_name", "the class name", "the word soup"),
        ("any", "the soup any", "the word soup"),
    ):
        said = answer(judge(tmp_path, methods={"coop": soup}, method="coop"))
        (finetuned,) = [part.text for part in said if part.about == "finetuned"]
        assert finetuned.startswith(f"Finetuned with {texts} (coop), against {other}: ")


def test_a_method_is_compared_with_the_same_without_soup_where_both_are_run(tmp_path):
    """0.9 against 0.7 of the images; the paper's figures are 67.23 - 66.52 and 60.20 - 59.25."""
    write_method(tmp_path, "coop_diverse", chance=0.9)
    write_method(tmp_path, "coop", chance=0.7)
    lines = store.read_table(tmp_path / "coop.parquet").to_pylist()
    named = [line | {"method": "class_name"} for line in lines if line["method"] == "word_soup"]
    store.write_table(tmp_path / "coop.parquet", pa.Table.from_pylist(named))
    made = {"methods": {"coop": "class_name", "coop_diverse": "word"}, "method": "coop_diverse", "without": "coop"}
    judgement = judge(tmp_path, **made)
    alone = load(tmp_path, methods=made["methods"], method="coop_diverse")
    (said,) = [part.text for part in answer(judgement) if part.about == "finetuned"]
    assert said.startswith("Finetuned with the word soup (coop_diverse), against the same without (coop): source +")
    assert said.count("], better") == 3
    assert said.endswith(" (the paper, with CLIP: XD +0.7, DG +1.0).")
    over_coop = [row for row in verdict_table(judgement).rows if row["over"] == "coop, finetuned"]
    assert [row["on"] for row in over_coop] == ["source", "XD mean", "DG mean"]
    for role, place in judgement.answers.items():
        others = {pair: gain for pair, gain in place.gains.items() if pair != ("finetuned", "without")}
        assert others == alone.answers[role].gains, "it widens no other interval"
    assert ", 2 of the other rows, 1 of the method over itself without a soup. Each" in about_intervals(judgement)
    assert metrics(judgement) == metrics(alone)


def test_other_soups_stand_below_the_answer_for_photos_with_their_verdicts(tmp_path):
    """The soup `any` gets as many images as the class name, the soup word more; neither changes the advice."""
    judgement = judge(tmp_path, question="photos")
    (other,) = record_searched(judgement)
    assert other["row"] == "soup any"
    assert other["source"] == pytest.approx(50, abs=2)
    assert {other[f"{role} verdict"] for role in ("source", "xd", "dg")} <= {"noise", "noise (just)"}
    *_, title, last = printed([], record_accuracy(judgement), [other])
    assert title == "the other soups, chosen on the few-shot photos, on the same test images, over the class name:"
    assert last.startswith(f"soup any{other['source']:>26.2f}")
    assert re.search(r"   source noise.*, XD noise.*, DG noise", last)


def test_a_method_whose_right_images_are_not_kept_names_the_next_step(tmp_path):
    write_method(tmp_path, "coop_diverse", chance=0.9)
    with pytest.raises(MismatchError, match="does not say which images coop_diverse gets right; run `dvc repro`"):
        judge(tmp_path, methods={"coop_diverse": "descriptor"}, method="coop_diverse")


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


def test_a_gain_that_depends_on_one_dataset_names_it(tmp_path):
    roles = {"photo": "source", "pets": "xd", "eurosat": "xd", "cars": "xd"}
    judgement = judge(tmp_path, soups={"word": WORD}, roles=roles, only="eurosat")
    assert {judged.depends_on for judged in judgement.comparisons if judged.role == "xd"} == {"eurosat"}
    assert {row.get("depends on") for row in verdict_table(judgement).rows if row["on"] == "XD mean"} == {
        None,
        "eurosat",
    }


def of_three_datasets(n_right: dict[str, int]) -> list[tuple[str, str | None]]:
    """Word and dataset of a soup's verdicts over the class name and over random texts, which both get 200 right."""
    soup = {name: (np.arange(N) < n)[None] for name, n in n_right.items()}
    plain = {name: (np.arange(N) < 200)[None] for name in n_right}
    rows = {"word": {"word_soup": soup, "class_name": plain, "random_beside_word": plain}}
    judged = compare_soups(rows, soups={"word": WORD}, places={"xd": list(n_right)}, confidence=0.95)
    return [(one.fixed.word, one.depends_on) for one in judged]


def test_noise_depends_on_no_dataset():
    """-20, -20 and +42 points are noise together. Without either of the first two there would be a sure gain."""
    assert of_three_datasets({"pets": 120, "cars": 120, "eurosat": 368}) == [("noise", None)] * 2


def test_a_gain_depends_on_a_dataset_at_the_level_of_its_own_verdict():
    """Without eurosat p is 0.035: more than the 0.025 of the first of two verdicts, less than the second one's 0.05."""
    assert of_three_datasets({"pets": 202, "cars": 203, "eurosat": 240}) == [("better", "eurosat"), ("better", None)]


def test_one_of_three_datasets_says_nothing_about_other_datasets(tmp_path):
    """Gains of 0, 30 and 0 points have a standard error of 10 over datasets."""
    roles = {"photo": "source", "pets": "xd", "eurosat": "xd", "cars": "xd"}
    judgement = judge(tmp_path, soups={"word": WORD}, roles=roles, only="eurosat")
    on_targets = [judged for judged in judgement.comparisons if judged.role == "xd"]
    assert {judged.fixed.word for judged in on_targets} == {"better"}
    assert {judged.resampled.word for judged in on_targets} == {"noise"}


def test_an_interval_over_datasets_is_shown_unless_it_says_nothing_at_all(tmp_path):
    roles = {"photo": "source", "pets": "xd", "eurosat": "xd"}
    judgement = judge(tmp_path, soups={"word": WORD}, roles=roles)
    one = next(judged for judged in judgement.comparisons if judged.role == "xd")
    shown = {}
    for low, high in ((-100.0, 100.0), (-100.0, 60.0), (-20.0, 100.0), (4.2, 4.2)):
        resampled = replace(one.resampled, low=low, high=high)
        told = replace(judgement, comparisons=[replace(one, resampled=resampled)])
        row = verdict_table(told).rows[-1]
        shown[low, high] = (row.get("low, other datasets"), row["verdict, other datasets"])
    assert shown.pop((-100.0, 100.0)) == (None, "too few datasets")
    assert shown.pop((4.2, 4.2)) == (None, "too few datasets"), "both gained one image"
    assert {low for low, _ in shown.values()} == {-100.0, -20.0}


def test_a_head_that_lacks_a_dataset_of_a_place_does_not_compete_there(tmp_path):
    write_head(tmp_path, "ridge", chance=0.95)  # on photo and sketch
    roles = {"photo": "source", "sketch": "xd", "pets": "xd"}
    judgement = judge(tmp_path, heads=["ridge"], roles=roles)
    assert {role: "head" in answer.accuracy for role, answer in judgement.answers.items()} == {
        "source": True,
        "xd": False,
    }


def test_a_finetuned_model_does_not_compete_for_photos(tmp_path):
    """It is the best, but training is another effort."""
    write_method(tmp_path, "coop_diverse", chance=0.99)
    made = {"methods": {"coop_diverse": "word"}, "method": "coop_diverse", "question": "photos"}
    judgement = judge(tmp_path, **made)
    assert judgement.answers["source"].accuracy["finetuned"] == pytest.approx(99, abs=1)
    assert {said.advice.partition(":")[0] for said in judgement.answers.values()} == {"Use the word soup"}
    for place in judgement.answers.values():
        assert place.gains["finetuned", "soup"].word == "better"


def test_the_curve_soup_is_not_judged(tmp_path):
    judgement = judge(tmp_path, soups={"word": WORD, "word_curve": WORD})
    assert {judged.soup for judged in judgement.comparisons} == {"word"}


def test_a_single_dataset_has_no_verdict_for_other_datasets(judgement):
    assert all(judged.resampled is None for judged in judgement.comparisons)
    assert "low, other datasets" not in verdict_table(judgement).rows[0]


def test_a_soup_is_corrected_for_its_own_rivals_on_one_place_whatever_else_the_run_has(judgement, tmp_path):
    """Another soup, and the sample it brings, are other questions."""
    chances = CHANCES | {"other_soup": 0.9, "random_beside_other": 0.5}
    more = judge(tmp_path, chances=chances, soups={"word": WORD, "any": SAMPLE, "other": WORD})
    verdicts = {(one.soup, one.rival, one.role): one.fixed for one in more.comparisons}
    for judged in judgement.comparisons:
        assert verdicts[judged.soup, judged.rival, judged.role] == judged.fixed


def test_missing_results_name_the_stage(tmp_path):
    with pytest.raises(MissingError, match="made by stage 'evaluate'"):
        load(tmp_path)
    write(tmp_path)
    with pytest.raises(MissingError, match="made by stage 'head@ridge'"):
        load(tmp_path, heads=["ridge"])
