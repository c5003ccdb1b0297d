"""Which texts are evaluated, for the pretrained model and for finetuned ones: all rows, each once."""

from __future__ import annotations

import dataclasses

import pytest
from evaluate_cases import evaluate_params
from half_done import unread_keys, unused
from pydantic import ValidationError

from wsoup.base.errors import PoolError
from wsoup.evaluate import rows as rows_module
from wsoup.evaluate.classifiers import check_rows, class_rows, pretrained_rows, tuned_rows
from wsoup.evaluate.rows import WAFFLE, Material, Method, Row
from wsoup.report.labels import table

POOL = [f"which is {word}" for word in ("red", "blue", "old", "wet", "tall", "thin")]
WORDS = ["hatch", "injuring", "slab", "digital", "bins", "magnets", "keep"]
PARAMS = evaluate_params(m=[1, 2, 4], baseline_m=3, tuned_baseline_m=4, offsets=[0, 5], ensemble=True)
ALL = {"soup": "word", "members": None}
KNOWN = {"class_name", "random_descriptors", "waffle", "random_chains", "descriptor_soup", "word_soup", "upper_bound"}
MATERIAL = Material(
    seeds=(1, 2),
    words=WORDS,
    descriptors=POOL,
    source_class_names=["red fox", "cat"],
    soups={
        "descriptor": {1: POOL[:3], 2: POOL[2:4]},
        "word": {1: ["slab keep", "bins"], 2: ["hatch", "keep slab bins"]},
    },
    upper_bound=POOL[4:],
)


def test_every_key_of_what_is_evaluated_and_reported_is_read():
    assert not unread_keys("evaluate"), "\n".join(unread_keys("evaluate"))


def test_everything_is_used():
    assert not unused("evaluate"), "\n".join(unused("evaluate"))


def known(rows: list[Row]) -> list[Row]:
    """The rows whose sizes stand below: a baseline that somebody adds has its own test."""
    return [row for row in rows if row.method in KNOWN]


def test_pretrained_rows_are_unique_and_complete():
    rows = known(pretrained_rows(MATERIAL, params=PARAMS))
    keys = [(row.method, row.seeds, row.m, row.offsets, row.text) for row in rows]
    assert len(set(keys)) == len(keys)
    assert rows[0] == Row("class_name", (1, 2), ("",))
    whole = {(row.method, row.m) for row in rows if row.seeds == (1,) and row.text is None and row.offsets == (0,)}
    assert whole == {
        *(("random_descriptors", m) for m in (1, 2, 3, 4)),
        *(("waffle", m) for m in (1, 2, 3, 4)),
        *(("descriptor_soup", m) for m in (1, 2, 3)),
        *(("word_soup", m) for m in (1, 2)),
        *(("random_chains", m) for m in (1, 2)),
    }
    tricked = {row.method for row in rows if row.offsets == (0, 5)}
    assert tricked == {"random_descriptors", "waffle", "descriptor_soup", "word_soup"}
    assert {row.texts_per_class for row in rows if row.offsets == (0, 5) and row.method == "waffle"} == {6.0}
    assert [row for row in rows if row.method == "upper_bound"] == [
        Row("upper_bound", (1, 2), tuple(POOL[4:5])),
        Row("upper_bound", (1, 2), tuple(POOL[4:])),
    ]


def test_given_texts_are_evaluated_alone():
    params = PARAMS.model_copy(update={"texts": ["a type of pet.", "which is red"]})
    given = [row for row in pretrained_rows(MATERIAL, params=params) if row.method == "given_text"]
    assert given == [Row("given_text", (1,), (text,), text=text) for text in ("a type of pet", "which is red")]
    with pytest.raises(ValidationError, match="must name each text once"):
        evaluate_params(texts=["a type of pet.", "a type of pet"])


def test_a_tuned_model_is_evaluated_with_its_own_seed_only():
    rows = known(tuned_rows(MATERIAL, params=PARAMS, seed=2, trained=ALL))
    assert {row.seeds for row in rows} == {(2,)}
    assert Row("word_soup", (2,), ("hatch", "keep slab bins")) in rows
    assert {(row.method, row.m, row.offsets) for row in rows} == {
        ("class_name", 1, (0,)),
        ("random_descriptors", 4, (0,)),
        ("waffle", 4, (0,)),
        ("descriptor_soup", 2, (0,)),
        ("descriptor_soup", 2, (0, 5)),
        ("word_soup", 2, (0,)),
        ("upper_bound", 2, (0,)),
    }


def test_random_chains_follow_the_word_soup_or_else_the_first_one():
    other = dataclasses.replace(MATERIAL, soups={"long": {1: ["slab keep bins"], 2: ["hatch"]}})
    chains = [row for row in pretrained_rows(other, params=PARAMS) if row.method == "random_chains" and not row.text]
    assert [[len(text.split()) for text in row.texts] for row in chains] == [[3], [1]]


def test_single_texts_are_members_of_the_first_seed_and_random_texts():
    alone = [row for row in known(pretrained_rows(MATERIAL, params=PARAMS)) if row.text is not None]
    assert {row.seeds for row in alone} == {(1,)}
    counts = {method: sum(row.method == method for row in alone) for method in {row.method for row in alone}}
    assert counts == {"random_descriptors": 6, "random_chains": 2, "descriptor_soup": 3, "word_soup": 2}


def test_at_most_eight_members_are_evaluated_alone():
    ten = [f"w{i}" for i in range(10)]
    long = dataclasses.replace(MATERIAL, soups={"word": {1: ten, 2: ten}})
    rows = pretrained_rows(long, params=PARAMS)
    assert [row.text for row in rows if row.method == "word_soup" and row.text] == ten[:8]


def test_a_pool_of_just_as_many_texts_as_are_drawn_is_enough():
    three = dataclasses.replace(MATERIAL, descriptors=POOL[:3])
    drawn = [row for row in pretrained_rows(three, params=PARAMS) if row.method == "random_descriptors"]
    assert max(row.m for row in drawn) == 3


def test_equal_members_of_a_soup_are_evaluated_alone_once():
    """Chains of one word each may be equal; the report refuses a line that is there twice."""
    twice = dataclasses.replace(MATERIAL, soups={"word": {1: ["slab", "bins", "slab"], 2: ["hatch"]}})
    rows = [row.text for row in pretrained_rows(twice, params=PARAMS) if row.method == "word_soup" and row.text]
    assert rows == ["slab", "bins"]


def test_without_an_upper_bound_there_is_no_row_of_it():
    none = dataclasses.replace(MATERIAL, upper_bound=[])
    rows = [*pretrained_rows(none, params=PARAMS), *tuned_rows(none, params=PARAMS, seed=1, trained=ALL)]
    assert "upper_bound" not in {row.method for row in rows}


def test_only_baselines_with_prompts_have_rows_by_class(photo):
    described = dataclasses.replace(photo, gpt={name: ["which is old"] for name in photo.class_names})
    rows = class_rows(Material((1,), templates=["a toy {}.".format]), [described])
    assert [(row.method, row.dataset) for row in rows] == [("ensemble", "photo"), ("gpt", "photo")]
    assert class_rows(Material((1,)), [photo]) == []
    gpt = [[f"a photo of a {name}, which is old."] for name in photo.class_names]
    assert class_rows(Material((1,)), [described]) == [Row("gpt", (1,), prompts=gpt, dataset="photo")]


def test_a_template_of_baselines_replaces_the_datasets_own_in_their_prompts_alone(photo):
    test = dataclasses.replace(
        photo, gpt={n: ["which is old"] for n in photo.class_names}, baseline_template="an image of a {}, outside."
    )
    ensemble, gpt = class_rows(Material((1,), templates=["a toy {}.".format]), [test])
    assert ensemble.prompts == [[f"a toy {name}, outside."] for name in photo.class_names]
    assert gpt.prompts == [[f"an image of a {name}, outside, which is old."] for name in photo.class_names]


def test_the_curve_soup_has_all_sizes_but_no_row_for_finetuned_models():
    curve = {1: ["slab keep", "bins", "hatch", "keep"], 2: ["hatch"] * 4}
    more = dataclasses.replace(MATERIAL, soups={**MATERIAL.soups, "word_curve": curve})
    rows = pretrained_rows(more, params=PARAMS)
    assert {row.m for row in rows if row.method == "word_curve_soup"} == {1, 2, 4}
    assert not [row for row in rows if row.method == "word_curve_soup" and (row.offsets != (0,) or row.text)]
    tuned = tuned_rows(more, params=PARAMS, seed=1, trained=ALL)
    assert not [row for row in tuned if row.method == "word_curve_soup"]
    assert {row.key: row.curve for row in table(list(more.soups)) if row.curve and "word" in row.key} == {
        "word_curve_soup": "word soup",
        "word_curve_soup_score_mean": "word soup, score mean",
    }


def test_a_model_trained_on_a_soups_first_members_is_evaluated_with_them():
    curve = {1: ["slab keep", "bins", "hatch", "keep"]}
    more = dataclasses.replace(MATERIAL, soups={**MATERIAL.soups, "word_curve": curve})
    assert Row("word_curve_soup", (1,), ("slab keep", "bins")) in tuned_rows(
        more, params=PARAMS, seed=1, trained={"soup": "word_curve", "members": 2}
    )
    rows = tuned_rows(more, params=PARAMS, seed=1, trained={"soup": "word", "members": 1})
    assert [row.m for row in rows if row.method == "word_soup"] == [1, 2]
    whole = tuned_rows(more, params=PARAMS, seed=1, trained={"soup": "word", "members": 2})
    assert [row.m for row in whole if row.method == "word_soup"] == [2]


def test_without_descriptors_nothing_is_drawn_from_them():
    none = dataclasses.replace(MATERIAL, descriptors=[], soups={"word": MATERIAL.soups["word"]}, upper_bound=[])
    for rows in (pretrained_rows(none, params=PARAMS), tuned_rows(none, params=PARAMS, seed=1, trained=ALL)):
        assert {row.method for row in rows} & {"random_descriptors", "descriptor_soup", "upper_bound"} == set()
        assert "waffle" in {row.method for row in rows}


def test_offsets_move_whole_soups_by_the_formula_of_params_and_draws_at_their_size():
    long = dataclasses.replace(MATERIAL, soups={"word": {1: list("abcde"), 2: list("abcd")}})
    rows = pretrained_rows(long, params=PARAMS.model_copy(update={"offset_formula": "code"}))
    moved = {(row.method, row.m): row.offset_formula for row in rows if row.offsets == (0, 5) and row.seeds == (1,)}
    assert moved == {("random_descriptors", 3): "code", ("waffle", 3): "code", ("word_soup", 5): "code"}
    still = pretrained_rows(MATERIAL, params=PARAMS.model_copy(update={"offsets": [0]}))
    assert len({(row.method, row.seeds, row.m, row.text) for row in still}) == len(still)


def test_a_pool_with_fewer_descriptors_than_a_table_row_draws_is_refused():
    few = dataclasses.replace(MATERIAL, descriptors=POOL[:2])
    with pytest.raises(PoolError, match="random_descriptors: cannot draw 3 texts from a pool of 2; lower evaluate"):
        pretrained_rows(few, params=PARAMS)
    with pytest.raises(PoolError, match="random_descriptors: cannot draw 4 texts from a pool of 2"):
        tuned_rows(few, params=PARAMS, seed=1, trained=ALL)


def test_a_method_has_its_full_size_alone_unless_it_is_sized_or_drawn(monkeypatch):
    three = Method("three", lambda material, seed, m: ["a", "b", "c"])
    sized = dataclasses.replace(three, name="sized", sized=True)
    drawn = dataclasses.replace(three, name="drawn", drawn=True)
    monkeypatch.setattr(rows_module, "BASELINES", (three, sized, drawn))
    params = evaluate_params(m=[1, 2, 4], baseline_m=2)
    made = [row for row in pretrained_rows(MATERIAL, params=params) if row.seeds == (1,) and row.text is None]
    sizes = {name: [row.m for row in made if row.method == name] for name in ("three", "sized", "drawn")}
    assert sizes == {"three": [3], "sized": [1, 2, 3], "drawn": [2, 3]}


def test_rows_that_no_seed_changes_are_reported_for_all_seeds_and_come_first():
    whole = [row for row in known(pretrained_rows(MATERIAL, params=PARAMS)) if row.text is None]
    seeds = [row.seeds for row in whole]
    assert seeds == sorted(seeds, key=lambda of_row: (len(of_row) == 1, of_row))
    assert {row.method for row in whole if row.seeds == (1, 2)} == {"class_name", "upper_bound"}


def test_listed_waffle_texts_are_drawn_by_seed():
    listed = [f"noise {i}" for i in range(20)]
    given = dataclasses.replace(MATERIAL, waffle=listed)
    one, again, two = (WAFFLE.texts(given, seed, m) for seed, m in ((1, 8), (1, 4), (2, 8)))
    assert set(one) < set(listed)
    assert (len(one), one[:4]) == (8, again)
    assert one != two
    assert not set(WAFFLE.texts(MATERIAL, 1, 8)) & set(listed)


def test_a_text_must_fit_at_every_offset_of_its_row(tiny_encoder, photo):
    """77 tokens hold a short text behind the class prompt, and no 75 null tokens besides."""
    short, moved = Row("soup", (1,), ("old",)), Row("soup", (1,), ("old",), offsets=(0, 75))
    check_rows([short], tests=[photo], tokenizer=tiny_encoder.tokenizer)
    with pytest.raises(PoolError, match="dataset photo"):
        check_rows([short, moved], tests=[photo], tokenizer=tiny_encoder.tokenizer)
    long = "word " * 80
    by_class = Row("gpt", (1,), prompts=[["a."], ["a."], [f"a {long}."]], dataset="photo", offsets=(0, 75))
    with pytest.raises(PoolError, match="dataset photo, class 'oak'"):
        check_rows([by_class], tests=[photo], tokenizer=tiny_encoder.tokenizer)
    other = dataclasses.replace(by_class, dataset="sketch")
    check_rows([other], tests=[photo], tokenizer=tiny_encoder.tokenizer)


TEMPLATES = {"mine": ["a {} of mine."], "openai7": ["itap of a {}.", "art of the {}."], "simple": []}


def test_lists_of_templates_are_rows_of_their_own(tests):
    """Files are used as they are; OpenAI's take the ending of the dataset's template, as its 80 do."""
    material = dataclasses.replace(MATERIAL, template_lists=TEMPLATES, own_templates={"pets": ["two {}s"]})
    rows = {(row.method, row.dataset): row.prompts[1] for row in class_rows(material, tests)}
    assert rows["openai7_templates", "pets"] == ["itap of a cat, a type of pet.", "art of the cat, a type of pet."]
    assert rows["openai7_templates", "sketch"] == ["itap of a cat.", "art of the cat."]
    assert rows["mine_templates", "pets"] == ["a cat of mine."]
    assert rows["simple_templates", "pets"] == ["a photo of a cat, a type of pet."]
    assert rows["own_templates", "pets"] == ["two cats"]
    assert rows["own_templates", "photo"] == ["a photo of a cat."], "a dataset without its own has its template"
    without = class_rows(dataclasses.replace(material, own_templates={}), tests)
    assert "own_templates" not in {row.method for row in without}


def test_a_soup_of_templates_has_no_offsets_and_is_not_evaluated_where_words_are_learnt():
    soups = {**MATERIAL.soups, "whole": {1: ["a {}.", "the {}."], 2: ["the {}."]}}
    material = dataclasses.replace(MATERIAL, soups=soups, pools={"whole": "whole"})
    rows = [row for row in pretrained_rows(material, params=PARAMS) if row.method == "whole_soup"]
    assert {row.offsets for row in rows} == {(0,)}
    assert {row.text for row in rows} == {None, "a {}.", "the {}."}
    assert "whole_soup" in {row.method for row in tuned_rows(material, params=PARAMS, seed=1, trained=ALL)}
    kept = material.without_templates()
    assert set(kept.soups) == {"descriptor", "word"}


def test_a_template_that_is_too_long_is_refused(tests, tiny_encoder):
    row = Row("x", (1,), ("a very " + "long " * 90 + "{}",))
    with pytest.raises(PoolError, match=r"dataset photo: 'a very long .* does not fit the model's context of 77"):
        check_rows([row], tests=tests, tokenizer=tiny_encoder.tokenizer)


@pytest.mark.parametrize(
    ("templates", "text"),
    [
        ({"own": "mine.txt"}, "the name 'own' is that of the row of the datasets' own"),
        ({"mine": "openai7"}, "'openai7' comes with wsoup and has a row of its own name"),
        ({"simple": "mine.txt"}, "'simple' comes with wsoup"),
    ],
)
def test_lists_that_come_with_wsoup_have_their_own_names(templates, text):
    with pytest.raises(ValidationError, match=text):
        evaluate_params(templates=templates)


def test_openais_80_are_the_row_of_the_ensemble():
    params = evaluate_params(templates={"openai80": "openai80", "mine": "mine.txt"})
    assert params.has_ensemble
    assert params.template_lists == params.template_files == {"mine": "mine.txt"}
