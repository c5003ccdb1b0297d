"""Features of single texts that are kept beside their means: those of encode_text, and the means are what they were."""

from __future__ import annotations

from dataclasses import replace

import torch
from evaluate_cases import NAMES

from wsoup.evaluate import class_means
from wsoup.evaluate.evaluation import mean_texts
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


def test_templates_are_filled_with_the_class_name_and_nothing_is_added(tiny_encoder, texts, tests):
    """Also where two datasets have one class prompt by another template and another name."""
    other = replace(tests[1], name="other", template="a photo of a red {}.", class_names=["fox", "bull"])
    row = Row("templates_soup", (1,), ("art of the {}", "a {} in a game."))
    mixed = Row("mixed", (1,), ("sharp", "art of the {}"))
    made = mean_texts([SOUP, row, mixed, OTHER], tests=[*tests, other], text_encoder=texts, weighed=[row])
    for test in (*tests, other):
        parts = {}
        for text in row.texts:
            parts[text] = tiny_encoder.encode_texts([text.replace("{}", name) for name in test.class_names])
        sharp = tiny_encoder.encode_texts([f"{stem}, sharp." for stem in test.stems])
        means = dict(made.of(test))
        expected = {row: torch.stack([*parts.values()]).mean(dim=0), mixed: (sharp + parts["art of the {}"]) / 2}
        for each, mean in expected.items():
            torch.testing.assert_close(means[each], mean, atol=1e-6, rtol=0)
        ((_, members),) = made.weighed_of(test)
        torch.testing.assert_close(members, torch.stack([*parts.values()]), atol=1e-6, rtol=0)


def test_rows_of_templates_move_no_bit_of_other_rows(texts, tests):
    templates = [Row("templates_soup", (seed,), ("art of the {}.", f"a {{}} {seed}")) for seed in (1, 2)]
    alone = mean_texts([OTHER, SOUP], tests=tests, text_encoder=texts)
    beside = mean_texts([OTHER, templates[0], SOUP, templates[1]], tests=tests, text_encoder=texts)
    assert torch.equal(beside.means[[0, 2]], alone.means)
