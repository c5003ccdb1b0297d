"""Which images judged rows get right, consistent with the counts of the tables; and what changes between two rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow.compute as pc
import pytest
from evaluate_cases import line
from torch.nn import functional as F

from wsoup.evaluate.answers import judged_rows
from wsoup.evaluate.evaluation import answers_of, evaluate, mean_texts
from wsoup.evaluate.judged import (
    confusion,
    flips,
    judged_tables,
    predictions,
    random_rows,
    right_images,
    together_rows,
    with_right_images,
)
from wsoup.evaluate.right import pack_right, right_by_row
from wsoup.evaluate.rows import Material, Row

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
    return mean_texts(ROWS, tests=tests, text_encoder=texts)


def test_judged_rows_are_whole_soups_without_offsets(classifiers, tests):
    assert judged_rows([row for row, _ in classifiers.of(tests[0])], soups=["word"]) == [0, 2, 4]


def test_right_images_are_stacked_by_rising_seed_whatever_the_order_of_lines():
    """Seeds 3, 1 and 2 in the file; two datasets of 3 and 9 images, so that bits end within a byte."""
    by_seed = {seed: {"pets": np.arange(3) < seed, "cars": np.arange(9) < 3 * seed} for seed in (3, 1, 2)}
    lines = []
    for seed, of_dataset in by_seed.items():
        for dataset, right in of_dataset.items():
            where = {"method": "word_soup", "mode": "centroid", "seed": seed, "dataset": dataset}
            lines.append({**where, "n_images": len(right), "right": pack_right(right)})
    (rights,) = right_by_row(lines).values()
    assert rights["pets"].sum(axis=1).tolist() == [1, 2, 3]
    assert rights["cars"].sum(axis=1).tolist() == [3, 6, 9]
    assert rights["pets"].shape == (3, 3)
    assert rights["pets"][0].tolist() == [True, False, False]


def test_rows_with_prompts_by_class_are_judged_too():
    """The templates and GPT descriptors, and what is drawn as the table shows it: two of Waffle's three texts."""
    by_class = [Row(name, (1, 2), prompts=[["a cat."], ["a dog.", "a wolf."]], dataset="pets") for name in ("gpt", "x")]
    waffle = [Row("waffle", (1,), ("a", "b", "c")[:m]) for m in (1, 2, 3)]
    rows = [Row("waffle", (1,), ("a", "b"), offsets=(0, 5)), *waffle, *by_class]
    assert judged_rows(rows, soups=[], drawn=2) == [2, 4]
    assert judged_rows(rows, soups=[]) == [4]


def test_right_images_add_up_to_the_counts_of_the_tables(tiny_encoder, classifiers, texts, tests):
    answers = answers_of(classifiers, tests=tests, soups=["word"])
    table = evaluate(answers, tokenizer=tiny_encoder.tokenizer, variant="pretrained")
    plain = table.filter(pc.and_(pc.is_null(table["text"]), pc.equal(table["offsets"], 1)))
    right = right_images(answers).to_pylist()
    assert len(right) == 4 * 2 * len(tests)  # class name and soup with two seeds each, two modes
    unpacked = right_by_row(right)
    for row in right:
        where = {key: row[key] for key in ("method", "mode", "seed", "dataset")}
        m = 2 if (row["method"], row["seed"]) == ("word_soup", 1) else 1
        count = unpacked[row["method"], row["mode"]][row["dataset"]][row["seed"] - 1].sum()
        assert count == line(plain, m=m, **where)["n_correct"]


def test_of_a_finetuned_model_the_right_images_of_whole_rows_are_kept(tiny_encoder, texts, tests):
    """Of class name and whole soup; not of its first member alone, nor with the offset trick."""
    made = mean_texts(ROWS[:4], tests=tests, text_encoder=texts)
    answers = answers_of(made, tests=tests, soups=["word"])
    counts = evaluate(answers, tokenizer=tiny_encoder.tokenizer, variant="coop")
    table = with_right_images(counts, answers)
    assert table.drop_columns(["right"]).equals(counts)
    kept = [row for row in table.to_pylist() if row["right"] is not None]
    assert {(row["method"], row["m"], row["offsets"]) for row in kept} == {
        ("class_name", 1, 1),
        ("word_soup", 2, 1),
    }
    unpacked = right_by_row(kept)
    for row in kept:
        right = unpacked[row["method"], row["mode"]][row["dataset"]]  # class name: a line for each of two seeds
        assert right[0].sum() == row["n_correct"]


def test_the_ensemble_is_judged_with_prompts_of_each_datasets_classes(texts, tests):
    test = tests[0]
    toys = [[f"a toy {name}."] for name in test.class_names]
    own = Row("ensemble", (1, 2), prompts=toys, dataset=test.name)
    made = mean_texts([*ROWS, own], tests=tests, text_encoder=texts)
    right = right_images(answers_of(made, tests=tests, soups=["word"])).to_pylist()
    assert {row["dataset"] for row in right if row["method"] == "ensemble"} == {test.name}
    assert len([row for row in right if row["method"] == "ensemble"]) == 2 * 2  # modes, seeds


def test_all_seeds_combined_have_all_members():
    material = Material((1, 2), soups={"word": {1: ["x y", "z"], 2: ["x y"]}})
    plain, soup = together_rows("word", material=material)
    assert plain == Row("", (1, 2), ("",))
    assert soup == Row("word_all_seeds", (1, 2), ("x y", "z", "x y"))


def test_random_controls_have_as_many_texts_of_the_same_pool_and_length():
    material = Material(
        seeds=(1, 2),
        words=["a", "b", "c", "d"],
        descriptors=["which is red", "made of wood", "very old"],
        pools={"word": "words", "descriptor": "descriptors"},
        soups={"word": {1: ["x y", "z"], 2: ["x"]}, "descriptor": {1: ["which is red"] * 2, 2: ["very old"]}},
    )
    drawn = {(row.method, row.seeds): row.texts for row in random_rows(material, soups=["word", "descriptor"])}
    assert [len(text.split()) for text in drawn["random_beside_word", (1,)]] == [2, 1]
    assert set(" ".join(drawn["random_beside_word", (1,)]).split()) <= set(material.words)
    assert len(drawn["random_beside_descriptor", (1,)]) == 2
    assert set(drawn["random_beside_descriptor", (1,)]) <= set(material.descriptors)


@pytest.mark.parametrize("mode", ["centroid", "score_mean"])
def test_flips_are_the_images_that_exactly_one_row_gets_right(texts, tests, mode):
    before, after = Row("class_name", (1,), ("",)), Row("soup", (1,), ("sharp", "old"))
    classifiers = mean_texts([before, after], tests=tests, text_encoder=texts)
    answers = answers_of(classifiers, tests=tests, shown=(before, after))
    changes = [predictions(of_dataset, pair=(before, after), mode=mode) for of_dataset in answers]
    turned = flips(changes).to_pylist()
    expected = []
    everywhere: Counter[tuple[str, int, int, int]] = Counter()
    for test in tests:
        for i in range(len(test.labels)):
            x, label = test.image_features[i], int(test.labels[i])
            means = [mean for _, mean in classifiers.of(test)]
            classes = [F.normalize(mean, dim=-1) for mean in means] if mode == "centroid" else means
            first, second = (int((of_classes @ x).argmax()) for of_classes in classes)
            everywhere[test.name, label, first, second] += 1
            if (first == label) != (second == label):
                expected.append((test.name, 100 + i, label, first, second))
    assert [tuple(row.values()) for row in turned] == expected
    assert expected
    taken = [tuple(line.values()) for line in confusion(changes).to_pylist()]
    assert {(name, *labels): n_images for name, *labels, n_images in taken} == everywhere


def test_the_verdict_covers_judged_rows_their_controls_and_all_seeds_combined(classifiers, texts, tests):
    soups = {"word": {1: ["sharp", "old red"], 2: ["old"]}}
    material = Material((1, 2), words=["a", "b", "c", "d"], soups=soups, pools={"word": "words"})
    answers = answers_of(classifiers, tests=tests, soups=["word"])
    tables = judged_tables(answers, material, soup="word", mode="centroid", text_encoder=texts)
    methods = {"class_name", "word_soup", "random_beside_word", "word_all_seeds"}
    keys = {(row["method"], row["seed"]) for row in tables["right"].to_pylist()}
    assert keys == {(method, seed) for method in methods for seed in (1, 2)}
    assert sum(tables["confusion"]["n_images"].to_pylist()) == sum(len(test.labels) for test in tests)
    assert {row["dataset"] for row in tables["flips"].to_pylist()} <= {test.name for test in tests}
