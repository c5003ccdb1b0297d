"""Which images the judged rows get right: the counts of the tables, image by image."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest
from evaluate_cases import line

from wsoup.evaluate.bits import unpack_right
from wsoup.evaluate.classifiers import Row
from wsoup.evaluate.counts import evaluate, mean_texts
from wsoup.evaluate.judged import judged, random_rows, right_images, selection_counts, together_rows
from wsoup.evaluate.rows import Material

ROWS = [
    Row("class_name", (1, 2), ("",)),
    Row("word_soup", (1,), ("sharp",)),
    Row("word_soup", (1,), ("sharp", "old red")),
    Row("word_soup", (1,), ("sharp", "old red"), offsets=(0, 1)),
    Row("word_soup", (2,), ("old",)),
    Row("word_soup", (1,), ("red",), text="red"),
]


@pytest.fixture(scope="module")
def classifiers(texts, tests):
    return mean_texts(ROWS, class_rows={}, tests=tests, encoder=texts)


def test_judged_are_whole_soups_without_offsets(classifiers):
    assert [row for row, _ in judged(classifiers, soups=["word"])] == [ROWS[0], ROWS[2], ROWS[4]]


def test_the_images_add_up_to_the_counts_of_the_tables(tiny_encoder, classifiers, texts, tests):
    table = evaluate(classifiers, tests=tests, tokenizer=tiny_encoder.tokenizer, variant="pretrained")
    plain = table.filter(pc.and_(pc.is_null(table["text"]), pc.equal(table["offsets"], 1)))
    right = right_images(classifiers, soups=["word"], tests=tests).to_pylist()
    assert len(right) == 4 * 2 * len(tests)  # class name and soup with two seeds each, two modes
    for row in right:
        where = {key: row[key] for key in ("method", "mode", "seed", "dataset")}
        m = 2 if (row["method"], row["seed"]) == ("word_soup", 1) else 1
        count = int(unpack_right(row["right"], n_images=row["n_images"]).sum())
        assert count == line(plain, m=m, **where)["n_correct"]


def test_the_templates_are_there_with_prompts_of_each_datasets_own_classes(texts, tests):
    test = tests[0]
    by_class = {test.name: [Row("ensemble", (1, 2), prompts=[[f"a toy {name}."] for name in test.class_names])]}
    made = mean_texts(ROWS, class_rows=by_class, tests=tests, encoder=texts)
    right = right_images(made, soups=["word"], tests=tests).to_pylist()
    assert {row["dataset"] for row in right if row["method"] == "ensemble"} == {test.name}
    assert len([row for row in right if row["method"] == "ensemble"]) == 2 * 2  # modes, seeds


def test_all_seeds_together_are_their_members_and_the_class_name_as_often_as_each_has_it():
    material = Material(
        seeds=(1, 2),
        words=[],
        descriptors=[],
        source_class_names=["cat"],
        soups={"word": {1: ["x y", "z"], 2: ["x y"]}},
        upper_bound=[],
        class_name_weights={"word": 2.0},
    )
    plain, soup = together_rows("word", material=material)
    assert plain == Row("", (1, 2), ("",))
    assert soup == Row("word_all_seeds", (1, 2), ("x y", "z", "x y"), class_name_weight=4.0)


def test_selection_images_are_counted_with_the_sources_classes(classifiers, tests):
    source = tests[0]
    images = {seed: (source.image_features[:seed], source.labels[:seed]) for seed in (1, 2)}
    counted = selection_counts(classifiers, soups=["word"], source=source, images=images.__getitem__).to_pylist()
    assert {(row["seed"], row["n_images"]) for row in counted} == {(1, 1), (2, 2)}
    right = right_images(classifiers, soups=["word"], tests=[source]).to_pylist()
    for row in counted:
        whole = next(r for r in right if all(r[k] == row[k] for k in ("method", "mode", "seed")))
        assert row["n_correct"] == unpack_right(whole["right"], n_images=40)[: row["seed"]].sum()


def test_random_texts_are_as_many_of_the_same_pool_and_as_long():
    material = Material(
        seeds=(1, 2),
        words=["a", "b", "c", "d"],
        descriptors=["which is red", "made of wood", "very old"],
        source_class_names=["cat"],
        soups={"word": {1: ["x y", "z"], 2: ["x"]}, "descriptor": {1: ["which is red"] * 2, 2: ["very old"]}},
        upper_bound=[],
    )
    drawn = {
        (row.method, row.seeds): row.texts
        for row in random_rows(material, pools={"word": "words", "descriptor": "descriptors"})
    }
    assert [len(text.split()) for text in drawn["random_beside_word", (1,)]] == [2, 1]
    assert set(" ".join(drawn["random_beside_word", (1,)]).split()) <= set(material.words)
    assert len(drawn["random_beside_descriptor", (1,)]) == 2
    assert set(drawn["random_beside_descriptor", (1,)]) <= set(material.descriptors)
