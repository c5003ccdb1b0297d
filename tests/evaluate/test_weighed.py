"""Rows of AutoCLIP and ZPE: which rows they take, counts by hand on a circle, and beside a plain loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from evaluate_cases import NAMES, evaluate_params, images
from heads_cases import on_a_circle

from wsoup.core import text_scores
from wsoup.core.autoclip import autoclip_scores
from wsoup.core.modes import WEIGHINGS
from wsoup.core.scoring import AtOnce
from wsoup.core.zpe import sureness, zpe_bias, zpe_selection, zpe_weights
from wsoup.evaluate import testsets
from wsoup.evaluate.classifiers import class_rows, pretrained_rows
from wsoup.evaluate.counts import count
from wsoup.evaluate.evaluation import evaluate, mean_texts
from wsoup.evaluate.judged import right_images
from wsoup.evaluate.right import right_by_row
from wsoup.evaluate.rows import Material, Row
from wsoup.evaluate.testsets import ClassPrompts, TestSet
from wsoup.evaluate.text_plan import Classifiers
from wsoup.evaluate.weighed import Bank, scorers, weighed_answers, weighed_rows
from wsoup.report.labels import WEIGHED_LABELS
from wsoup.report.what_rows_are import WEIGHTS

SOUP = Row("word_soup", (7,), ("a", "b"))


def kept(members: torch.Tensor, *, test: TestSet, row: Row = SOUP) -> Classifiers:
    """Classifiers of one row with these texts' features."""
    position = {text: i for i, text in enumerate(row.texts)}
    return Classifiers([row], ClassPrompts([test]), members.mean(dim=0)[None], members, position, [], [row], 1.0)


def test_counts_on_a_circle_by_hand():
    """Texts a: classes at 40 and 100 degrees; b: at 110 and 50. Images of the first class at 40, of the second at 80.

    AutoCLIP gives the image at 40 degrees to the first class (tests/core/test_autoclip.py). The one at 80 has cosines
    0.77 and 0.94 with a, 0.87 and 0.87 with b: means and weights alike say the second.
    """
    pictures, labels = on_a_circle(40, 80).float(), torch.tensor([0, 1])
    test = TestSet("d", "xd", "a {}.", ["east", "north"], pictures, labels, np.arange(2), {})
    members = torch.stack([on_a_circle(40, 100), on_a_circle(110, 50)]).float()
    (answers,) = weighed_answers(kept(members, test=test), tests=[test], bank=Bank(torch.zeros(2), 1.0))
    lines = {line["mode"]: line for line in count(answers, sizes={"a": 1, "b": 1})}
    assert list(lines) == ["autoclip", "zpe", "zpe_selection"]
    first, second = lines["autoclip"], lines["zpe"]
    assert (first["n_correct"], first["n_images"], first["m"], first["stored"], first["seed"]) == (2, 2, 2, 2, 7)
    # ZPE: the mean image lies at 60 degrees, 0.940 long. Half of its cosines with a are 0.442 and 0.360, with b 0.302
    # and 0.463. What is left at best: a 0.558 and 0.580, mean 0.569; b 0.522 and 0.564, mean 0.543.
    of_texts = torch.tensor([0.569, 0.543])
    weights = of_texts.softmax(dim=0)
    both = pictures @ torch.einsum("m,mcd->cd", weights, members).T
    assert second["n_correct"] == int((both.argmax(dim=1) == labels).sum()) == 1
    assert second["alignment"] == pytest.approx(float((both[0, 0] + both[1, 1]) / 2), abs=1e-3)
    assert second["uniformity"] == pytest.approx(float((both[0, 1] + both[1, 0]) / 2), abs=1e-3)
    # Only a is above the median by half of the deviation.
    assert lines["zpe_selection"]["n_correct"] == 2


def test_every_way_is_the_plain_one(tiny_encoder, texts, tests):
    bank = Bank(images("bank", role="xd", names=NAMES, n=11, width=16).image_features.mean(dim=0), 20.0)
    row = Row("word_soup", (1, 2), ("sharp", "which is red", "old", "sharp"))
    made = mean_texts([row], tests=tests, text_encoder=texts, weighed=[row])
    answers = weighed_answers(made, tests=tests, bank=bank)
    table = evaluate(answers, tokenizer=tiny_encoder.tokenizer, variant="pretrained").to_pylist()
    assert len(table) == 3 * 3 * 2  # datasets, ways, seeds
    rights = right_by_row(right_images(answers).to_pylist())
    for test in tests:
        ((_, members),) = made.weighed_of(test)
        scores = torch.einsum("nd,mcd->nmc", test.image_features, members)
        bias = zpe_bias(members, mean_image=test.image_features.mean(dim=0), mean_of_bank=bank.mean_image)
        of_texts = 20.0 * sureness(scores, bias=bias).mean(dim=0)
        expected = {
            "autoclip": autoclip_scores(scores),
            "zpe": torch.einsum("m,nmc->nc", zpe_weights(of_texts), scores),
            "zpe_selection": torch.einsum("m,nmc->nc", zpe_selection(of_texts), scores),
        }
        for line in table:
            if line["dataset"] == test.name:
                right = expected[line["mode"]].argmax(dim=1) == test.labels
                assert line["n_correct"] == int(right.sum())
                assert rights["word_soup", line["mode"]][test.name][0].tolist() == right.tolist()


def test_blocks_of_images_change_nothing(texts, tests, monkeypatch):
    bank = Bank(torch.zeros(16), 20.0)
    made = mean_texts([SOUP], tests=tests, text_encoder=texts, weighed=[SOUP])
    whole = right_images(weighed_answers(made, tests=tests, bank=bank))
    monkeypatch.setattr(testsets, "ROWS_PER_SHARD", 16)
    monkeypatch.setattr(text_scores, "suited_to", lambda device: AtOnce(scores=30))
    assert right_images(weighed_answers(made, tests=tests, bank=bank)).equals(whole)


def test_labels_are_not_seen(photo, texts):
    made = mean_texts([SOUP], tests=[photo], text_encoder=texts, weighed=[SOUP])
    ((_, members),) = made.weighed_of(photo)
    other = replace(photo, labels=(photo.labels + 1) % 3)
    bank, mean = Bank(torch.ones(16), 20.0), photo.image_features.mean(dim=0)
    scored = [scorers(members, test=test, mean_image=mean, bank=bank) for test in (photo, other)]
    for way in WEIGHINGS:
        assert torch.equal(scored[0][way](photo.image_features), scored[1][way](photo.image_features))


def test_every_way_has_its_scorer_its_label_and_its_words(photo):
    members = torch.ones(2, len(NAMES), 16)
    made = scorers(members, test=photo, mean_image=torch.ones(16), bank=Bank(torch.zeros(16), 1.0))
    for where, named in (
        ("wsoup/evaluate/weighed.py: scorers()", made),
        ("wsoup/report/labels.py: WEIGHED_LABELS", WEIGHED_LABELS),
        ("wsoup/report/what_rows_are.py: WEIGHTS", WEIGHTS),
    ):
        missing = set(WEIGHINGS) - set(named)
        assert not missing, f"{where} has no {sorted(missing)}, a way of wsoup/core/modes.py"


def test_rows_are_those_of_the_tables_without_offsets(photo):
    material = Material(
        (1, 2),
        words=["a", "b", "c", "d"],
        descriptors=["one", "two", "three", "four", "five"],
        source_class_names=NAMES,
        soups={"word": {1: ["a b", "c"], 2: ["d"]}, "word_curve": {1: ["a b", "c", "d"], 2: ["d", "a"]}},
        templates=["a toy {}.".format, "a {}.".format],
        upper_bound=["one", "two"],
    )
    params = evaluate_params(m=[1, 2, 4], baseline_m=3, offsets=[0, 5])
    described = replace(photo, gpt={name: ["which is old"] for name in NAMES})
    rows = [*pretrained_rows(material, params=params), *class_rows(material, [described])]
    taken = weighed_rows(rows, soups=["word", "word_curve"], drawn=3)
    assert [(row.method, row.seeds, row.m) for row in taken] == [
        ("random_descriptors", (1,), 3),
        ("random_chains", (1,), 2),
        ("word_soup", (1,), 2),
        ("random_descriptors", (2,), 3),
        ("random_chains", (2,), 1),
        ("word_soup", (2,), 1),
        ("ensemble", (1, 2), 2),
    ]
    assert {row.offsets for row in taken} == {(0,)}


def test_without_weighed_rows_there_are_no_answers(photo, texts):
    made = mean_texts([SOUP], tests=[photo], text_encoder=texts)
    assert weighed_answers(made, tests=[photo], bank=Bank(torch.zeros(16), 1.0)) == []
