"""Counts of rows: answers by hand on a circle, identities, and a plain loop over a real model."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from evaluate_cases import NAMES, line
from heads_cases import on_a_circle
from torch.nn import functional as F

from wsoup.core.class_texts import normalize
from wsoup.evaluate import class_means
from wsoup.evaluate.answers import answer
from wsoup.evaluate.class_means import mean_weights
from wsoup.evaluate.classifiers import class_rows
from wsoup.evaluate.counts import SCHEMA, count, tokens_stored
from wsoup.evaluate.evaluation import answers_of, evaluate, mean_texts
from wsoup.evaluate.rows import Material, Row
from wsoup.evaluate.testsets import TestSet
from wsoup.evaluate.text_plan import plan_texts
from wsoup.texts.encoder import PromptEncoder


def test_counts_and_cosines_on_a_circle_by_hand():
    images, labels = on_a_circle(10, 80, 44).float(), torch.tensor([0, 1, 1])
    test = TestSet("d", "xd", "a {}.", ["east", "north"], images, labels, np.arange(3), {})
    # One row whose mean texts point east and north, the second half as long.
    mean = on_a_circle(0, 90).float() * torch.tensor([[1.0], [0.5]])
    answers = answer([(Row("x", (7,), ("t",)), mean)], test=test, logit_scale=2.0)
    by_mode = {row["mode"]: row for row in count(answers, sizes={"t": 3})}
    same = "wsoup/evaluate/counts.py: a metric of a row needs its value in `count` and its type in `SCHEMA`"
    assert {*by_mode["centroid"], "variant"} == {*SCHEMA.names}, same
    assert by_mode["centroid"]["n_correct"] == 2  # 44 degrees is nearer east
    assert by_mode["score_mean"]["n_correct"] == 2  # and 80 degrees: 0.17 against 0.49
    cos = [math.cos(math.radians(a)) for a in (10, 10, 46)]
    assert by_mode["centroid"]["alignment"] == pytest.approx(sum(cos) / 3)
    # Logits differ by 2 (0.98 - 0.17) = 1.62 twice, for the right class, and by 2 (0.72 - 0.69) for the wrong one.
    by_two = [2 * abs(math.cos(math.radians(a)) - math.sin(math.radians(a))) for a in (10, 80, 44)]
    sure = [1 / (1 + math.exp(-logit)) for logit in by_two]
    likelihoods = [math.log(p) for p in (sure[0], sure[1], 1 - sure[2])]
    assert by_mode["centroid"]["log_likelihood"] == pytest.approx(sum(likelihoods) / 3)
    # The two right ones share a bin, [12/15, 13/15], and are right more often than they are sure; the other is alone.
    error = (2 - sure[0] - sure[1] + sure[2]) / 3
    assert by_mode["centroid"]["calibration_error"] == pytest.approx(error)
    assert by_mode["centroid"]["seed"] == 7
    assert by_mode["centroid"]["stored"] == 3


@pytest.fixture
def counted(tiny_encoder, texts):
    """Rows -> their counts on some datasets."""

    def made(rows, *, tests):
        classifiers = mean_texts(rows, tests=tests, text_encoder=texts)
        answers = answers_of(classifiers, tests=tests)
        return evaluate(answers, tokenizer=tiny_encoder.tokenizer, variant="pretrained")

    return made


def test_every_row_equals_the_plain_loop_over_encode_text(tiny_encoder, counted, tests):
    rows = [
        Row("class_name", (1, 2), ("",)),
        Row("soup", (1,), ("which is red", "sharp old", "which is red wine")),
        Row("soup", (2,), ("sharp old",)),
    ]
    table = counted(rows, tests=tests)
    for test in tests:
        for row in rows:
            prompts = [[f"{stem}{text and ', '}{text}." for stem in test.stems] for text in row.texts]
            features = torch.stack([tiny_encoder.encode_texts(of_text) for of_text in prompts])  # (M, C, D)
            each = torch.einsum("nd,mcd->mnc", test.image_features, features)
            by_mode = {"centroid": test.image_features @ normalize(features.mean(dim=0)).T, "score_mean": each.mean(0)}
            for mode, scores in by_mode.items():
                expected = int((scores.argmax(dim=1) == test.labels).sum())
                for seed in row.seeds:
                    got = line(table, method=row.method, mode=mode, seed=seed, dataset=test.name, m=len(row.texts))
                    assert (got["n_correct"], got["n_images"]) == (expected, len(test.labels))


def test_token_offsets_are_null_tokens_after_the_comma(tiny_encoder, texts, tests):
    test = tests[0]
    row = Row("soup", (1,), ("which is red",), offsets=(0, 3))
    mean = mean_texts([row], tests=[test], text_encoder=texts).of(test)[0][1]
    plain = tiny_encoder.tokenizer([f"a photo of a {name}, which is red." for name in NAMES])
    stems = tiny_encoder.tokenizer([f"a photo of a {name}," for name in NAMES])
    shifted = torch.zeros_like(plain)
    for i, (tokens, stem) in enumerate(zip(plain, stems, strict=True)):
        n, end = int(stem.argmax()), int(tokens.argmax())
        shifted[i, :n] = tokens[:n]
        shifted[i, n + 3 : end + 4] = tokens[n : end + 1]
    features = torch.stack([F.normalize(tiny_encoder.model.encode_text(t), dim=-1) for t in (plain, shifted)])
    torch.testing.assert_close(mean, features.mean(dim=0), atol=1e-5, rtol=0)


def test_gpt_and_ensemble_rows_equal_their_plain_means(tiny_encoder, counted, tests):
    gpt = {"dog": ["which has a tail", "which barks"], "cat": ["which is soft"]}
    test = replace(tests[2], gpt=gpt)
    templates = ["itap of a {}.".format, "a toy {}.".format]
    rows = class_rows(Material((1,), templates=templates), [test])
    assert [(row.method, row.dataset) for row in rows] == [("ensemble", "pets"), ("gpt", "pets")]
    table = counted([Row("class_name", (1,), ("",)), *rows], tests=[test])
    stem = "a photo of a {}, a type of pet"
    dog = [f"{stem}, which has a tail.".format("dog"), f"{stem}, which barks.".format("dog")]
    cat = [f"{stem}, which is soft.".format("cat")]
    mean = torch.stack([tiny_encoder.encode_texts(group).mean(dim=0) for group in (dog, cat)])
    expected = int(((test.image_features @ mean.T).argmax(dim=1) == test.labels).sum())
    got = line(table, method="gpt", mode="score_mean")
    assert (got["n_correct"], got["m"], got["texts"], got["stored"]) == (expected, None, 1.5, None)
    assert line(table, method="ensemble", mode="centroid")["m"] == 2


def test_prompts_by_class_need_no_memory_for_classes_times_prompts(texts, monkeypatch):
    """10,000 classes with 80 templates each would be 32 GB of weights."""
    row = Row("templates", (1,), (), prompts=tuple((f"a {name}.", f"an old {name}.", "a.") for name in NAMES))
    whole = class_means.mean_prompts(row, text_encoder=texts).means
    monkeypatch.setattr(class_means, "CLASS_PROMPTS", 1)
    sizes = []
    plain = class_means.mean_weights
    monkeypatch.setattr(
        class_means, "mean_weights", lambda groups, texts: sizes.append(len(texts)) or plain(groups, texts=texts)
    )
    assert torch.allclose(class_means.mean_prompts(row, text_encoder=texts).means, whole, atol=1e-6)
    assert sizes == [3] * len(NAMES)


def test_each_prompt_is_encoded_once(tiny_encoder, tests):
    once, shared = (
        PromptEncoder(tiny_encoder.model, tiny_encoder.tokenizer, device=torch.device("cpu")) for _ in range(2)
    )
    mean_texts([Row("a", (1,), ("old", "new"))], tests=tests[:1], text_encoder=once)
    rows = [Row("a", (1,), ("old", "new")), Row("b", (1,), ("new",)), Row("c", (2,), ("old", "new", "old"))]
    mean_texts(rows, tests=tests[:2], text_encoder=shared)  # the shift's class names are among the source's
    assert shared.tokens_encoded == once.tokens_encoded


def test_a_soup_takes_one_integer_per_token_to_store(tiny_encoder):
    sizes = tokens_stored(["", "old", "which is red"], tokenizer=tiny_encoder.tokenizer)
    assert sizes == {"": 0, "old": 1, "which is red": 3}


def test_a_repeated_text_counts_repeatedly():
    assert mean_weights([["a", "a", "b"]], texts=["a", "b"]).tolist() == [pytest.approx([2 / 3, 1 / 3])]


def test_a_single_text_has_one_mode_and_offsets_are_counted(counted, tests):
    rows = [Row("given_text", (1,), ("old",), text="old"), Row("soup", (1,), ("old",), offsets=(0, 3))]
    lines = counted(rows, tests=tests[:1]).to_pylist()
    assert [(row["method"], row["mode"], row["offsets"], row["texts"]) for row in lines] == [
        ("given_text", "centroid", 1, 1.0),
        ("soup", "centroid", 2, 2.0),
        ("soup", "score_mean", 2, 2.0),
    ]


def test_null_tokens_follow_a_rows_own_formula(texts, tests):
    """The authors' code puts them after the whole prompt: other features, and another resume key."""
    wording, code = (Row("s", (1,), ("old",), offsets=(3,), offset_formula=name) for name in ("wording", "code"))
    features = [mean_texts([row], tests=tests[:1], text_encoder=texts).means for row in (wording, code)]
    assert not torch.allclose(*features, atol=1e-3)


def test_a_resume_key_holds_everything_that_decides_a_block(texts, tests):
    rows = [
        Row("s", (1,), ("old",), offsets=(3,)),
        Row("s", (1,), ("new",), offsets=(3,)),
        Row("s", (1,), ("old",), offsets=(0, 3)),
        Row("s", (1,), ("old",), offsets=(3,), offset_formula="code"),
    ]
    for prompts in ([["a cat."]], [["a dog."]]):
        rows.append(Row("gpt", (1,), prompts=prompts * 3, dataset="photo"))
    plans = [plan_texts([row], tests=tests[:1], text_encoder=texts) for row in rows]
    plans.append(plan_texts([rows[0]], tests=tests[2:], text_encoder=texts))
    keys = [json.dumps([part.inputs for part in plan.parts.values()]) for plan in plans]
    assert len(set(keys)) == 7


def test_blocks_of_class_prompts_change_nothing(texts, tests, monkeypatch):
    rows = [Row("soup", (1,), ("sharp", "old"))]
    whole = mean_texts(rows, tests=tests, text_encoder=texts).means
    monkeypatch.setattr(class_means, "CLASS_PROMPTS", 2)
    torch.testing.assert_close(mean_texts(rows, tests=tests, text_encoder=texts).means, whole)
