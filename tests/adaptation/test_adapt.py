"""Adaptation without labels: formulas against plain loops, the guard, blocks, streams, and bad input."""

from __future__ import annotations

import inspect
import math
import typing

import numpy as np
import pytest
import torch
from adapt_cases import pile, right
from torch import Tensor

from wsoup.adaptation import adapted as adapted_module
from wsoup.adaptation import kinds
from wsoup.adaptation import stream as stream_module
from wsoup.adaptation.adapted import Adapted, Statistics, predict_softly, zero_shot_classifier
from wsoup.adaptation.kinds import KINDS, adapt, estimate
from wsoup.adaptation.stream import predictions, stream
from wsoup.base.errors import DataError, MismatchError, ParamsError

SCALE = 12.0


# ---------------------------------------------------------------------------------------------------- one pass


def test_information_is_one_for_certain_predictions_that_differ():
    """Two images, two classes: certain of one each carries log 2 of log 2; the same for both, or undecided, nothing."""
    texts = zero_shot_classifier(torch.eye(2), logit_scale=1e3, kind="em")
    assert predict_softly(torch.eye(2), by=texts)[0].information == pytest.approx(1)
    assert predict_softly(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), by=texts)[0].information == pytest.approx(0)
    assert predict_softly(torch.tensor([[0.6, 0.6], [0.7, 0.7]]), by=texts)[0].information == pytest.approx(0, abs=1e-9)


def test_statistics_weight_images_by_their_probabilities():
    """Logits (log 3, 0): three quarters of each image count for the first class."""
    by = Adapted("em", torch.tensor([[math.log(3), 0.0]]), torch.zeros(2), True, "")
    statistics, answers = predict_softly(torch.ones(4, 1), by=by)
    assert statistics.soft_counts.tolist() == pytest.approx([3, 1])
    assert statistics.sums[:, 0].tolist() == pytest.approx([3, 1])
    assert statistics.mean.tolist() == pytest.approx([1])
    assert answers.tolist() == [0, 0, 0, 0]
    assert statistics.effective_classes == pytest.approx(1 / 2)


def test_statistics_add_up_and_scale():
    images = pile()
    by = zero_shot_classifier(images.texts, logit_scale=SCALE, kind="em")
    whole, first, rest = (
        predict_softly(part, by=by)[0] for part in (images.features, *images.features.split([100, 200]))
    )
    for statistics in (first + rest, whole * 0.5 + whole * 0.5):
        torch.testing.assert_close(statistics.sums, whole.sums, rtol=1e-4, atol=1e-4)
        assert (statistics.n, statistics.information) == pytest.approx((300, whole.information), rel=1e-5)


def test_results_do_not_depend_on_the_block_size(monkeypatch):
    images = pile()
    whole = adapt(images.features, texts=images.texts, logit_scale=SCALE, kind="em")
    monkeypatch.setattr(adapted_module, "block_size", lambda bias: 7)
    blocks = adapt(images.features, texts=images.texts, logit_scale=SCALE, kind="em")
    torch.testing.assert_close(blocks.classifier, whole.classifier, rtol=1e-5, atol=1e-5)
    assert blocks.predict(images.features).tolist() == whole.predict(images.features).tolist()


# ----------------------------------------------------------------------------------------------- the formula, slowly


def slow_em(features: np.ndarray, texts: np.ndarray, *, scale: float, rounds: int) -> np.ndarray:
    """Logits by loops over images and classes, in float64, from the docstring of `wsoup.adaptation.kinds`."""
    n, n_classes = len(features), texts.shape[1]
    text_logits = [[scale * float(f @ texts[:, c]) for c in range(n_classes)] for f in features]
    mean = sum(features) / n
    off = [scale * float(mean @ texts[:, c]) / 2 for c in range(n_classes)]
    text_logits = [[row[c] - off[c] for c in range(n_classes)] for row in text_logits]
    logits = text_logits
    for _ in range(rounds):
        answers = []
        for row in logits:
            powers = [math.exp(value - max(row)) for value in row]
            answers.append([power / sum(powers) for power in powers])
        centres, shares = [], []
        for c in range(n_classes):
            n_c = sum(answer[c] for answer in answers)
            centre = sum(answer[c] * f for answer, f in zip(answers, features, strict=True)) + 32 * mean
            centres.append(centre / np.linalg.norm(centre))
            shares.append((n_c + 32) / (n + n_classes * 32))
        logits = [
            [own[c] + 2 * scale * float(f @ centres[c]) + math.log(shares[c]) for c in range(n_classes)]
            for own, f in zip(text_logits, features, strict=True)
        ]
    return np.array(logits)


def test_em_follows_its_formula():
    images = pile(counts=(30, 12, 5))
    zero_shot = zero_shot_classifier(images.texts, logit_scale=SCALE, kind="em")
    first = predict_softly(images.features, by=zero_shot)
    made = estimate(images.features, zero_shot=zero_shot, logit_scale=SCALE, first=first, settled=-1.0)
    slow = slow_em(images.features.double().numpy(), images.texts.double().numpy(), scale=SCALE, rounds=10)
    np.testing.assert_allclose(made.adapted.logits(images.features), slow, atol=1e-3)
    answers, before = slow.argmax(axis=1), (images.features @ images.texts).argmax(dim=1).numpy()
    assert made.after.counts.tolist() == np.bincount(answers, minlength=3).tolist()
    assert made.n_unchanged == (answers == before).sum()


def test_center_subtracts_the_mean_image():
    images = pile()
    made = adapt(images.features, texts=images.texts, logit_scale=SCALE, kind="center")
    assert made.adapted
    by_hand = SCALE * (images.features - images.features.mean(dim=0)) @ images.texts
    torch.testing.assert_close(made.logits(images.features), by_hand, rtol=1e-4, atol=1e-4)


def test_em_stops_when_predictions_settle():
    images = pile(noise=0.01, off=0.1)
    zero_shot = zero_shot_classifier(images.texts, logit_scale=SCALE, kind="em")
    passes = []
    real = kinds.predict_softly
    try:
        kinds.predict_softly = lambda features, *, by: passes.append(1) or real(features, by=by)
        estimate(images.features, zero_shot=zero_shot, logit_scale=SCALE, first=real(images.features, by=zero_shot))
    finally:
        kinds.predict_softly = real
    assert len(passes) < kinds.ROUNDS


# ----------------------------------------------------------------------------------------------------- what it is for


@pytest.mark.parametrize("seed", range(5))
def test_em_helps_where_images_cluster(seed):
    images = pile(off=1.2, seed=seed)
    made = adapt(images.features, texts=images.texts, logit_scale=SCALE, kind="em")
    before = right(images.texts, torch.zeros(5), images)
    assert before < 300
    assert right(made.classifier, made.bias, images) >= before


@pytest.mark.parametrize("counts", [(100, 50, 25, 15, 10), (60, 60, 0, 0, 0)])
def test_em_does_not_hurt_with_rare_or_absent_classes(counts):
    before = after = 0
    for seed in range(8):
        images = pile(counts=counts, off=1.0, seed=seed)
        made = adapt(images.features, texts=images.texts, logit_scale=SCALE, kind="em")
        before += right(images.texts, torch.zeros(5), images)
        after += right(made.classifier, made.bias, images)
    assert after >= before


def test_the_order_of_images_is_irrelevant():
    images = pile(off=1.2)
    one = adapt(images.features, texts=images.texts, logit_scale=SCALE, kind="em")
    other = adapt(images.features.flip(0), texts=images.texts, logit_scale=SCALE, kind="em")
    torch.testing.assert_close(one.classifier, other.classifier, rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------------------------------------------------ the guard


def is_zero_shot(made: Adapted, texts: Tensor) -> bool:
    return not made.adapted and torch.equal(made.classifier, SCALE * texts) and not made.bias.any()


@pytest.mark.parametrize("kind", KINDS)
def test_uninformative_texts_keep_the_zero_shot_classifier(kind):
    images = pile()
    draw = torch.Generator().manual_seed(1)
    texts = torch.nn.functional.normalize(images.texts[:, :1] + 0.05 * torch.randn(32, 5, generator=draw), dim=0)
    made = adapt(images.features, texts=texts, logit_scale=SCALE, kind=kind)
    assert is_zero_shot(made, texts)
    assert made.note.startswith("class texts barely tell these images apart (information 0.0")


@pytest.mark.parametrize("kind", KINDS)
def test_one_image_or_one_class_keeps_the_zero_shot_classifier(kind):
    images = pile(counts=(60, 0, 0, 0, 0), off=0.1)
    for features in (images.features[:1], images.features):
        assert is_zero_shot(adapt(features, texts=images.texts, logit_scale=SCALE, kind=kind), images.texts)


def statistics_of(*counts: int, entropy: float = 0.0) -> Statistics:
    per_class = torch.tensor(counts, dtype=torch.float64)
    return Statistics(torch.zeros(len(counts), 2), per_class, per_class, entropy)


def test_the_more_informative_the_texts_the_fewer_predictions_may_change():
    """Texts with information 0.4 leave 0.6 open: two thirds of that, 40 % of the predictions, may change."""
    texts = statistics_of(50, 50, entropy=100 * math.log(2) * 0.6)
    assert texts.information == pytest.approx(0.4)
    assert kinds.reject_adapted(texts, texts, unchanged=0.61) == ""
    assert kinds.reject_adapted(texts, texts, unchanged=0.59) == (
        "adaptation would change 41 % of the predictions, more than the 40 % allowed for texts of information 0.40: "
        "kept the zero-shot classifier"
    )


def test_predictions_may_spread_over_nearly_all_classes_or_over_no_more_than_before():
    """Of ten classes: effective 0.2 before; 0.1 and 0.9 after are accepted, 0.5 is not."""
    few, one, half, most = (statistics_of(*[1] * n, *[0] * (10 - n)) for n in (2, 1, 5, 9))
    assert kinds.reject_adapted(few, one, unchanged=0.99) == kinds.reject_adapted(few, most, unchanged=0.99) == ""
    assert kinds.reject_adapted(few, half, unchanged=0.99) == (
        "adaptation would spread predictions over more classes (0.50 of all, effective; zero-shot 0.20), but not "
        "nearly all: kept the zero-shot classifier"
    )


def test_center_needs_equally_frequent_classes():
    images = pile(counts=(80, 80, 0, 0, 0), off=0.3)
    made = adapt(images.features, texts=images.texts, logit_scale=SCALE, kind="center")
    assert is_zero_shot(made, images.texts)
    assert "classes are not equally frequent (0.4" in made.note


# ------------------------------------------------------------------------------------------------- streams, labels


OPTIONS = {"logit_scale": SCALE, "kind": "em"}


def test_a_batch_is_classified_with_the_images_before_it():
    """Early in the stream, every batch adds a quarter and EM runs on all images so far."""
    images = pile(off=1.2)
    batches = images.features.split(64)
    answered = list(stream(batches, texts=images.texts, **OPTIONS))
    assert [len(batch) for batch, _ in answered] == [64, 64, 64, 64, 44]
    for i, (_, made) in enumerate(answered[:4]):
        whole = adapt(torch.cat(batches[: i + 1]), texts=images.texts, **OPTIONS)
        torch.testing.assert_close(made.classifier, whole.classifier, rtol=1e-4, atol=1e-4)


def test_between_refreshes_a_batch_adds_its_statistics(monkeypatch):
    """By loops, from the docstrings: soft predictions of the second batch by the first one's classifier, one round."""
    monkeypatch.setattr(kinds, "reject_texts", lambda texts: "")
    monkeypatch.setattr(kinds, "reject_adapted", lambda texts, adapted, unchanged: "")
    images = pile(counts=(30, 20, 20), off=1.0)
    first, second = images.features.split([40, 30])
    (_, one), (_, two) = stream([first, second], texts=images.texts, growth=1e9, **OPTIONS)
    mean = images.features.double().mean(dim=0)
    sums, counts = torch.zeros(3, 32).double(), torch.zeros(3).double()
    for batch in (first, second):
        for f in batch:
            p = one.predict_proba(f[None])[0].double()
            sums += p[:, None] * f.double()
            counts += p
    centres = torch.nn.functional.normalize(sums + 32 * mean, dim=1)
    by_hand = SCALE * (images.texts.double() + 2 * centres.T)
    torch.testing.assert_close(two.classifier.double(), by_hand, rtol=1e-3, atol=1e-3)
    bias = ((counts + 32) / (70 + 3 * 32)).log() - SCALE * (mean @ images.texts.double()) / 2
    torch.testing.assert_close(two.bias.double(), bias, rtol=1e-3, atol=1e-3)


def test_the_cost_of_a_batch_does_not_grow_with_the_stream(monkeypatch):
    """Of 3,000 images 200 to 399 are kept, and EM runs on them when the stream grows by a quarter, not every batch."""
    sizes = []

    def counted(features, *, by):
        sizes.append(len(features))
        return predict_softly(features, by=by)

    monkeypatch.setattr(kinds, "predict_softly", counted)
    images = pile(counts=(600,) * 5, off=1.0)
    answered = list(stream(images.features.split(10), texts=images.texts, keep=200, **OPTIONS))
    assert max(sizes) < 400
    assert sum(n > 10 for n in sizes) <= 24 * kinds.ROUNDS  # 10 x 1.25^24 = 2,118
    last = answered[-1][1]
    whole = adapt(images.features, texts=images.texts, **OPTIONS)
    assert last.adapted
    assert abs(right(last.classifier, last.bias, images) - right(whole.classifier, whole.bias, images)) < 60


def test_a_pile_or_its_batches_give_a_prediction_per_image_and_the_share_adapted():
    images = pile(off=1.2)
    for batch in (0, 64):
        before, after, adapted = predictions(images.features, texts=images.texts, batch=batch, **OPTIONS)
        assert len(before) == len(after) == 300
        assert before.tolist() == (images.features @ images.texts).argmax(dim=1).tolist()
        assert adapted == 1.0
        assert (after == images.labels).sum() > (before == images.labels).sum()
    flat = torch.nn.functional.normalize(torch.ones(32, 5) + 0.01 * images.texts, dim=0)
    before, after, adapted = predictions(images.features, texts=flat, batch=64, **OPTIONS)
    assert adapted == 0.0
    assert torch.equal(before, after)


def test_no_function_takes_a_label():
    allowed = {
        *("features", "texts", "logit_scale", "kind", "zero_shot", "first", "by", "bias", "shares", "batches", "batch"),
        *("earlier", "rounds", "estimate", "unchanged", "adapted", "settled", "keep", "growth"),
    }
    for module in (kinds, stream_module, adapted_module):
        for _, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__:
                assert {*inspect.signature(function).parameters} <= allowed, (module, function)
    assert "labels" not in typing.get_type_hints(Adapted)


# ------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"kind": "sinkhorn"}, ParamsError, "kind is 'sinkhorn'; expected one of em, center"),
        ({"logit_scale": 0.0}, ParamsError, "logit_scale is 0.0; expected a number above 0"),
        ({"logit_scale": math.nan}, ParamsError, "expected a number above 0"),
        ({"texts": torch.ones(3, 5)}, MismatchError, r"class texts have shape \(3, 5\); expected \(32, C\)"),
        ({"texts": torch.ones(32, 1)}, DataError, "at least two classes"),
        ({"features": torch.ones(0, 32)}, DataError, r"features has shape \(0, 32\)"),
    ],
)
def test_bad_input_is_refused(change, error, message):
    images = pile()
    given = {"features": images.features, "texts": images.texts, "logit_scale": SCALE, "kind": "em", **change}
    with pytest.raises(error, match=message):
        adapt(given.pop("features"), **given)
