"""Counts of rows: hand answers on a circle, identities, and the plain loop over a real model."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from wsoup import prompts
from wsoup.evaluate.baselines import Row
from wsoup.evaluate.counts import class_rows, count, evaluate, flips, mean_cosines, mean_texts, tokens_stored
from wsoup.evaluate.testsets import TestSet
from wsoup.evaluate.transfer import Grid, mean_accuracy, ranked_on_targets, sample, survey, upper_bound
from wsoup.scoring import centroid_scores, score_mean
from wsoup.texts.encoder import PromptEncoder

NAMES = ["red fox", "cat", "oak"]


def images(
    name: str, *, role: str, names: list[str], n: int, width: int, template: str = "a photo of a {}."
) -> TestSet:
    """n random unit vectors with random labels."""
    generator = torch.Generator().manual_seed(len(name))
    return TestSet(
        name=name,
        role=role,
        template=template,
        class_names=names,
        image_features=F.normalize(torch.randn(n, width, generator=generator), dim=1),
        labels=torch.randint(len(names), (n,), generator=generator),
        rows=np.arange(100, 100 + n),
        attributes={},
    )


@pytest.fixture(scope="module")
def texts(tiny_encoder):
    return PromptEncoder(tiny_encoder.model, tiny_encoder.tokenizer, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def tests():
    return [
        images("photo", role="source", names=NAMES, n=40, width=16),
        images("sketch", role="dg", names=NAMES[:2], n=30, width=16),
        images("pets", role="xd", names=["dog", "cat"], n=20, width=16, template="a photo of a {}, a type of pet."),
    ]


def line(table, **wanted):
    """The one line of a table with these values."""
    found = [row for row in table.to_pylist() if all(row[key] == value for key, value in wanted.items())]
    assert len(found) == 1
    return found[0]


def on_circle(*degrees: float) -> torch.Tensor:
    angle = torch.tensor(degrees) * math.pi / 180
    return torch.stack([angle.cos(), angle.sin()], dim=-1)


def test_counts_and_cosines_on_a_circle_by_hand():
    test = TestSet(
        "d", "xd", "a {}.", ["east", "north"], on_circle(10, 80, 44), torch.tensor([0, 1, 1]), np.arange(3), {}
    )
    # One row whose mean texts point east and north, the second half as long.
    means = torch.stack([on_circle(0, 90) * torch.tensor([[1.0], [0.5]])])
    by_mode = {
        row["mode"]: row for row in count([Row("x", (7,), ("t",))], means=means, stored=[3], test=test, variant="v")
    }
    assert by_mode["centroid"]["n_correct"] == 2  # 44 degrees is nearer east
    assert by_mode["score_mean"]["n_correct"] == 2  # and 80 degrees: 0.17 against 0.49
    cos = [math.cos(math.radians(a)) for a in (10, 10, 46)]
    assert by_mode["centroid"]["alignment"] == pytest.approx(sum(cos) / 3)
    assert by_mode["centroid"]["seed"] == 7
    assert by_mode["centroid"]["stored"] == 3


def test_mean_cosines_with_one_class_have_no_uniformity():
    alignment, uniformity = mean_cosines(torch.tensor([[2.0, 0.0]]).double(), classes=on_circle(0), n_images=2)
    assert alignment == pytest.approx(1.0)
    assert math.isnan(uniformity)


def test_every_row_equals_the_plain_loop_over_encode_text(tiny_encoder, texts, tests):
    rows = [
        Row("class_name", (1, 2), ("",)),
        Row("soup", (1,), ("which is red", "sharp old", "which is red wine")),
        Row("soup", (2,), ("sharp old",)),
    ]
    found = evaluate(
        mean_texts(rows, tests=tests, encoder=texts),
        class_rows={},
        tests=tests,
        encoder=texts,
        tokenizer=tiny_encoder.tokenizer,
        variant="pretrained",
    )
    for test in tests:
        for row in rows:
            features = torch.stack(
                [
                    tiny_encoder.encode_texts([prompts.prompt(test.template, name, text) for name in test.class_names])
                    for text in row.texts
                ]
            )  # (M, C, D)
            for mode, scores in (("centroid", centroid_scores), ("score_mean", score_mean)):
                wanted = int((scores(test.image_features, features).argmax(dim=1) == test.labels).sum())
                for seed in row.seeds:
                    got = line(found, method=row.method, mode=mode, seed=seed, dataset=test.name, m=len(row.texts))
                    assert (got["n_correct"], got["n_images"]) == (wanted, len(test.labels))


def test_token_offsets_are_null_tokens_between_class_name_and_text(tiny_encoder, texts, tests):
    test = tests[0]
    row = Row("soup", (1,), ("which is red",), offsets=(0, 3))
    mean = mean_texts([row], tests=[test], encoder=texts).of(test)[0]
    plain = tiny_encoder.tokenizer([f"a photo of a {name}, which is red." for name in NAMES])
    stems = tiny_encoder.tokenizer([f"a photo of a {name}" for name in NAMES])
    shifted = torch.zeros_like(plain)
    for i, (tokens, stem) in enumerate(zip(plain, stems, strict=True)):
        n, end = int(stem.argmax()), int(tokens.argmax())
        shifted[i, :n] = tokens[:n]
        shifted[i, n + 3 : end + 4] = tokens[n : end + 1]
    features = torch.stack([F.normalize(tiny_encoder.model.encode_text(t), dim=-1) for t in (plain, shifted)])
    torch.testing.assert_close(mean, features.mean(dim=0), atol=1e-5, rtol=0)


def test_offset_zero_alone_equals_no_offset(texts, tests):
    rows = [Row("soup", (1,), ("sharp", "old"), offsets=(0,)), Row("soup", (1,), ("old", "sharp"))]
    first, second = mean_texts(rows, tests=tests, encoder=texts).of(tests[2])
    torch.testing.assert_close(first, second)


def test_a_soup_of_one_is_that_text_alone(texts, tests):
    rows = [Row("soup", (1,), ("sharp",)), Row("other", (1,), ("old", "new", "sharp"))]
    grid = Grid(["sharp"], tests=tests, encoder=texts)
    alone = next(grid.blocks(["sharp"]))[0]
    for test in tests:
        torch.testing.assert_close(
            mean_texts(rows, tests=tests, encoder=texts).of(test)[0], alone[grid.index[test.name]]
        )


def test_gpt_and_ensemble_rows_equal_their_plain_means(tiny_encoder, texts, tests):
    test = tests[2]
    gpt = {"pets": {"dog": ["which has a tail", "which barks"], "cat": ["which is soft"]}}
    rows = class_rows([test], seeds=[1], templates=["itap of a {}.".format, "a toy {}.".format], gpt=gpt)
    assert [row.method for row in rows["pets"]] == ["ensemble", "gpt"]
    found = evaluate(
        mean_texts([Row("class_name", (1,), ("",))], tests=[test], encoder=texts),
        class_rows=rows,
        tests=[test],
        encoder=texts,
        tokenizer=tiny_encoder.tokenizer,
        variant="pretrained",
    )
    stem = "a photo of a {}, a type of pet"
    dog = [f"{stem}, which has a tail.".format("dog"), f"{stem}, which barks.".format("dog")]
    cat = [f"{stem}, which is soft.".format("cat")]
    mean = torch.stack([tiny_encoder.encode_texts(group).mean(dim=0) for group in (dog, cat)])
    wanted = int(((test.image_features @ mean.T).argmax(dim=1) == test.labels).sum())
    got = line(found, method="gpt", mode="score_mean")
    assert (got["n_correct"], got["m"], got["texts"]) == (wanted, None, 1.5)
    assert line(found, method="ensemble", mode="centroid")["m"] == 2


def test_each_prompt_is_encoded_once(tiny_encoder, tests):
    once, shared = (
        PromptEncoder(tiny_encoder.model, tiny_encoder.tokenizer, device=torch.device("cpu")) for _ in range(2)
    )
    mean_texts([Row("a", (1,), ("old", "new"))], tests=tests[:1], encoder=once)
    rows = [Row("a", (1,), ("old", "new")), Row("b", (1,), ("new",)), Row("c", (2,), ("old", "new", "old"))]
    mean_texts(rows, tests=tests[:2], encoder=shared)  # the shift's class names are among the source's
    assert shared.tokens_encoded == once.tokens_encoded


def test_flips_are_the_images_that_exactly_one_row_gets_right(texts, tests):
    before, after = Row("class_name", (1,), ("",)), Row("soup", (1,), ("sharp", "old"))
    classifiers = mean_texts([before, after], tests=tests, encoder=texts)
    found = flips(classifiers, before=before, after=after, tests=tests).to_pylist()
    wanted = []
    for test in tests:
        for i in range(len(test.labels)):
            x, label = test.image_features[i], int(test.labels[i])
            first, second = (int((F.normalize(mean, dim=-1) @ x).argmax()) for mean in classifiers.of(test))
            if (first == label) != (second == label):
                wanted.append((test.name, 100 + i, label, first, second))
    assert [tuple(row.values()) for row in found] == wanted
    assert wanted


def test_a_soup_takes_one_integer_a_token_to_store(tiny_encoder):
    rows = [Row("class_name", (1,), ("",)), Row("soup", (1,), ("old", "which is red"))]
    assert tokens_stored(rows, tokenizer=tiny_encoder.tokenizer) == [0, 4]


def test_survey_counts_each_text_alone(texts, tests):
    grid = Grid(["", "old", "sharp"], tests=tests, encoder=texts)
    found = survey(grid)
    assert found.num_rows == 9
    rows = [Row("x", (1,), ("sharp",))]
    for test in tests:
        means = mean_texts(rows, tests=tests, encoder=texts).of(test)
        single = next(iter(count(rows, means=means, stored=[0], test=test, variant="v")))
        got = line(found, text="sharp", dataset=test.name)
        assert got["n_correct"] == single["n_correct"]
        assert got["alignment"] == pytest.approx(single["alignment"], abs=1e-5)
        assert got["uniformity"] == pytest.approx(single["uniformity"], abs=1e-5)


def test_mean_accuracy_weighs_datasets_alike():
    assert mean_accuracy([1, 0], n_images=[2, 100]) > mean_accuracy([0, 49], n_images=[2, 100])
    assert mean_accuracy([1, 0], n_images=[2, 100]) == mean_accuracy([0, 50], n_images=[2, 100])


def test_the_upper_bound_is_the_one_by_one_loop_over_the_targets(texts, tests):
    pool = ["old", "sharp", "red", "which is wet", "tall", "thin", "cold", "many", "loud"]
    grid = Grid(["", *pool], tests=tests, encoder=texts)
    ranked = ranked_on_targets(survey(grid))
    assert sorted(ranked) == sorted(pool)
    members = [member.text for member in upper_bound(ranked, grid=grid, m=4)]
    targets = [test for test in tests if test.role != "source"]
    kept: list[str] = []
    best = -1.0
    for text in ranked:
        counts = []
        for test in targets:
            mean = mean_texts([Row("x", (1,), (*kept, text))], tests=targets, encoder=texts).of(test)[0]
            found = (test.image_features @ F.normalize(mean, dim=-1).T).argmax(dim=1) == test.labels
            counts.append(float(found.double().mean()))
        if sum(counts) / len(counts) > best + 1e-9 and len(kept) < 4:
            kept, best = [*kept, text], sum(counts) / len(counts)
    assert members == kept


def test_the_sample_is_the_same_always_and_in_pool_order():
    pool = [str(i) for i in range(50)]
    drawn = sample(pool, size=10)
    assert drawn == sample(pool, size=10) == sorted(drawn, key=int)
    assert sample(pool, size=99) == pool
