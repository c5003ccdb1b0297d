"""Features of single texts that are kept beside their means: those of encode_text, and the means are what they were."""

from __future__ import annotations

from dataclasses import replace

import torch
from evaluate_cases import NAMES

from wsoup.evaluate import class_means
from wsoup.evaluate.class_means import mean_texts
from wsoup.evaluate.rows import Row

SOUP = Row("soup", (1,), ("sharp", "which is red", "sharp"))
OTHER = Row("other", (1,), ("old", "sharp"), offsets=(0, 3))


def test_members_are_the_features_of_every_text_in_the_rows_order(tiny_encoder, texts, tests):
    made = mean_texts([OTHER, SOUP], tests=tests, text_encoder=texts, weighed=[SOUP])
    for test in tests:
        ((row, members),) = made.weighed_of(test)
        assert row == SOUP
        for text, features in zip(row.texts, members, strict=True):
            expected = tiny_encoder.encode_texts([f"{stem}, {text}." for stem in test.stems])
            torch.testing.assert_close(features, expected, atol=1e-5, rtol=0)


def test_prompts_by_class_are_kept_by_template(tiny_encoder, texts, tests):
    prompts = [[f"a {name}.", f"an old {name}."] for name in NAMES]
    row = Row("ensemble", (1,), prompts=prompts, dataset="photo")
    made = mean_texts([row], tests=tests, text_encoder=texts, weighed=[row])
    ((_, members),) = made.weighed_of(tests[0])
    for template, features in zip(("a {}.", "an old {}."), members, strict=True):
        expected = tiny_encoder.encode_texts([template.format(name) for name in NAMES])
        torch.testing.assert_close(features, expected, atol=1e-5, rtol=0)
    assert list(made.weighed_of(tests[1])) == []  # another dataset has no such row


def test_keeping_texts_moves_no_bit_of_the_means(texts, tests):
    prompts = Row("ensemble", (1,), prompts=[["a cat."], ["a dog."], ["an oak."]], dataset="photo")
    rows = [OTHER, SOUP, prompts]
    plain = mean_texts(rows, tests=tests, text_encoder=texts)
    kept = mean_texts(rows, tests=tests, text_encoder=texts, weighed=[SOUP, prompts])
    assert torch.equal(kept.means, plain.means)
    assert torch.equal(kept.by_class[0][1].means, plain.by_class[0][1].means)
    assert plain.members.numel() == 0
    assert list(plain.weighed_of(tests[0])) == []


def test_members_of_two_blocks_of_class_prompts_are_joined(texts, tests, monkeypatch):
    test = replace(tests[0], class_names=["dog", *NAMES])
    whole = dict(mean_texts([SOUP], tests=[test], text_encoder=texts, weighed=[SOUP]).weighed_of(test))
    monkeypatch.setattr(class_means, "CLASS_PROMPTS", 3)
    joined = dict(mean_texts([SOUP], tests=[test], text_encoder=texts, weighed=[SOUP]).weighed_of(test))
    torch.testing.assert_close(joined[SOUP], whole[SOUP])
