"""Adaptation without labels: formulas against plain loops, the guard, blocks, and bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from adapt_cases import Pile, pile, right, with_foreign_images
from torch import Tensor

from wsoup.base.errors import DataError
from wsoup.photos import adaptation, estimation, second_look
from wsoup.photos.adaptation import adapted_to, reject_adapted, reject_groups, reject_second_look
from wsoup.photos.estimation import Adapted, Statistics, estimate, predict_softly

SCALE = 12.0


def zero_shot(texts: Tensor, *, logit_scale: float = SCALE) -> Adapted:
    return Adapted(logit_scale * texts, torch.zeros(texts.shape[1]), False, "")


# ---------------------------------------------------------------------------------------------------- one pass


def test_information_is_one_for_certain_predictions_that_differ():
    """Two images, two classes: certain of one each carries log 2 of log 2; the same for both, or undecided, nothing."""
    texts = zero_shot(torch.eye(2), logit_scale=1e3)
    assert predict_softly(torch.eye(2), by=texts)[0].information == pytest.approx(1)
    assert predict_softly(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), by=texts)[0].information == pytest.approx(0)
    assert predict_softly(torch.tensor([[0.6, 0.6], [0.7, 0.7]]), by=texts)[0].information == pytest.approx(0, abs=1e-9)


def test_statistics_weight_images_by_their_probabilities():
    """Logits (log 3, 0): three quarters of each image count for the first class."""
    by = Adapted(torch.tensor([[math.log(3), 0.0]]), torch.zeros(2), True, "")
    statistics, answers = predict_softly(torch.ones(4, 1), by=by)
    assert statistics.soft_counts.tolist() == pytest.approx([3, 1])
    assert statistics.sums[:, 0].tolist() == pytest.approx([3, 1])
    assert statistics.mean.tolist() == pytest.approx([1])
    assert answers.tolist() == [0, 0, 0, 0]
    assert statistics.effective_classes == pytest.approx(1 / 2)


def test_sums_are_in_double_precision():
    """1,001 times log 2, each rounded to float32; and a mean over classes of which float32 loses the last two."""
    statistics, _ = predict_softly(torch.ones(1001, 1), by=Adapted(torch.zeros(1, 2), torch.zeros(2), True, ""))
    assert statistics.entropy == pytest.approx(1001 * float(torch.tensor(2.0).log()), rel=1e-12)
    sums = torch.tensor([[2.0**24], [1.0], [1.0]])
    assert Statistics(sums, torch.ones(3), torch.tensor([2.0, 1, 1]), 0.0).mean.tolist() == [(2**24 + 2) / 4]


def test_results_do_not_depend_on_the_block_size(monkeypatch):
    images = pile()
    whole = adapted_to(images.features, texts=images.texts, logit_scale=SCALE)
    monkeypatch.setattr(estimation, "LOGITS_PER_BLOCK", 35)
    blocks = adapted_to(images.features, texts=images.texts, logit_scale=SCALE)
    torch.testing.assert_close(blocks.classifier, whole.classifier, rtol=1e-5, atol=1e-5)
    assert blocks.predict(images.features).tolist() == whole.predict(images.features).tolist()


# ----------------------------------------------------------------------------------------------- the formula, slowly


def slow_em(features: np.ndarray, texts: np.ndarray, *, scale: float, rounds: int) -> np.ndarray:
    """Logits by loops over images and classes, in float64, from the docstring of `wsoup.photos.estimation`."""
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


def test_em_follows_its_formula(monkeypatch):
    monkeypatch.setattr(estimation, "SETTLED", -1.0)
    images = pile(counts=(30, 12, 5))
    mean = images.features.double().mean(dim=0)
    how = {"zero_shot": zero_shot(images.texts), "logit_scale": SCALE, "mean": mean, "off": 0.5}
    adapted, statistics, predictions = estimate(images.features, **how)
    slow = slow_em(images.features.double().numpy(), images.texts.double().numpy(), scale=SCALE, rounds=10)
    np.testing.assert_allclose(adapted.logits(images.features), slow, atol=1e-3)
    answers = slow.argmax(axis=1)
    assert statistics.counts.tolist() == np.bincount(answers, minlength=3).tolist()
    assert predictions.tolist() == answers.tolist()


def test_em_stops_when_predictions_settle(monkeypatch):
    passes = []

    def counted(features: Tensor, *, by: Adapted) -> tuple[Statistics, Tensor]:
        passes.append(1)
        return predict_softly(features, by=by)

    monkeypatch.setattr(estimation, "predict_softly", counted)
    for how, n_passes in (({"noise": 0.01, "off": 0.1}, 2), ({"off": 1.2}, 4)):  # the start, rounds
        images = pile(**how)
        mean = images.features.double().mean(dim=0)
        estimate(images.features, zero_shot=zero_shot(images.texts), logit_scale=SCALE, mean=mean, off=0.5)
        assert len(passes) == n_passes
        passes.clear()


# ----------------------------------------------------------------------------------------------------- what it is for


@pytest.mark.parametrize("seed", range(5))
def test_em_helps_where_images_cluster(seed):
    images = pile(off=1.2, seed=seed)
    made = adapted_to(images.features, texts=images.texts, logit_scale=SCALE)
    before = right(images.texts, torch.zeros(5), images)
    assert before < 300
    assert right(made.classifier, made.bias, images) >= before


@pytest.mark.parametrize("counts", [(100, 50, 25, 15, 10), (60, 60, 0, 0, 0)])
def test_em_does_not_hurt_with_rare_or_absent_classes(counts):
    before = after = 0
    for seed in range(8):
        images = pile(counts=counts, off=1.0, seed=seed)
        made = adapted_to(images.features, texts=images.texts, logit_scale=SCALE)
        before += right(images.texts, torch.zeros(5), images)
        after += right(made.classifier, made.bias, images)
    assert after >= before


# ------------------------------------------------------------------------------------------------------------ the guard


def is_zero_shot(made: Adapted, texts: Tensor) -> bool:
    return not made.adapted and torch.equal(made.classifier, SCALE * texts) and not made.bias.any()


def test_uninformative_texts_keep_the_zero_shot_classifier():
    images = pile()
    draw = torch.Generator().manual_seed(1)
    texts = torch.nn.functional.normalize(images.texts[:, :1] + 0.05 * torch.randn(32, 5, generator=draw), dim=0)
    made = adapted_to(images.features, texts=texts, logit_scale=SCALE)
    assert is_zero_shot(made, texts)
    assert made.note.startswith("class texts barely tell these images apart (information 0.0")
    images = pile(off=1.2)  # information 0.08 and 0.13
    notes = [adapted_to(images.features, texts=images.texts, logit_scale=scale).note for scale in (3.0, 4.0)]
    assert [note.startswith("class texts barely tell these images apart") for note in notes] == [True, False]


def test_one_image_or_one_class_keeps_the_zero_shot_classifier():
    images = pile(counts=(60, 0, 0, 0, 0), off=0.1)
    for features in (images.features[:1], images.features):
        assert is_zero_shot(adapted_to(features, texts=images.texts, logit_scale=SCALE), images.texts)


def test_a_pile_needs_eight_images_for_each_class():
    images = pile(off=1.0)
    few = adapted_to(images.features[:39], texts=images.texts, logit_scale=SCALE)
    assert is_zero_shot(few, images.texts)
    assert few.note == "39 images for 5 classes, adaptation needs 8 for each: kept the zero-shot classifier"
    assert adapted_to(images.features[:40], texts=images.texts, logit_scale=SCALE).adapted


def statistics_of(*counts: int, entropy: float = 0.0) -> Statistics:
    per_class = torch.tensor(counts, dtype=torch.float64)
    return Statistics(torch.zeros(len(counts), 2), per_class, per_class, entropy)


def test_the_more_informative_the_texts_the_fewer_predictions_may_change():
    """Texts with information 0.4 leave 0.6 open: two thirds of that, 40 % of the predictions, may change."""
    texts = statistics_of(50, 50, entropy=100 * math.log(2) * 0.6)
    assert texts.information == pytest.approx(0.4)
    assert reject_adapted(texts, texts, unchanged=0.61) == ""
    assert reject_adapted(texts, texts, unchanged=0.59) == (
        "adaptation would change 41 % of the predictions, more than the 40 % allowed for texts of information 0.40: "
        "kept the zero-shot classifier"
    )


def test_at_most_half_of_the_predictions_may_change_however_little_the_texts_know():
    """With information 0.2, two thirds of 0.8 would be 53 %."""
    texts = statistics_of(50, 50, entropy=100 * math.log(2) * 0.8)
    assert reject_adapted(texts, texts, unchanged=0.51) == ""
    assert "change 52 % of the predictions, more than the 50 %" in reject_adapted(texts, texts, unchanged=0.48)


def test_predictions_may_spread_over_nearly_all_classes_or_over_no_more_than_before():
    """Of ten classes: effective 0.2 before; 0.1 and 0.9 after are accepted, 0.5 is not."""
    few, one, half, most = (statistics_of(*[1] * n, *[0] * (10 - n)) for n in (2, 1, 5, 9))
    assert reject_adapted(few, one, unchanged=0.99) == reject_adapted(few, most, unchanged=0.99) == ""
    assert reject_adapted(few, half, unchanged=0.99) == (
        "adaptation would spread predictions over more classes (0.50 of all, effective; zero-shot 0.20), but not "
        "nearly all: kept the zero-shot classifier"
    )


# -------------------------------------------------------------------------------------------------- the second look


def test_pull_compares_the_mean_image_with_single_ones():
    """Logits of 1 and 3 and their negatives: the mean's are 2 and -2, deviation sqrt 8; single ones add 1, sqrt 4/3."""
    by = Adapted(torch.tensor([[1.0, -1.0]]), torch.zeros(2), False, "")
    images = torch.tensor([[1.0], [3.0]])
    assert second_look.pull(images, zero_shot=by, mean=torch.tensor([2.0]).double()) == pytest.approx(math.sqrt(6))
    assert second_look.pull(images[:1], zero_shot=by, mean=torch.tensor([1.0]).double()) == math.inf


def test_lift_is_what_a_text_gains_on_the_images_that_got_its_class():
    """Probabilities 3/4 and 1/4, 1/2 in the mean: on its own image a text gains log 3/2, on all images nothing."""
    texts = zero_shot(torch.eye(2), logit_scale=math.log(3))
    statistics, predictions = predict_softly(torch.eye(2), by=texts)
    look = {"zero_shot": texts, "texts": statistics}
    assert second_look.lift(torch.eye(2), predictions=predictions, **look) == pytest.approx(math.log(1.5))
    assert second_look.lift(torch.eye(2), predictions=1 - predictions, **look) == pytest.approx(math.log(0.5))
    assert second_look.lift(torch.eye(2), predictions=torch.zeros(2).int(), **look) == pytest.approx(0, abs=1e-6)


def test_cost_is_what_changed_answers_lose_by_the_texts_probabilities():
    """Probabilities are 3/4 and 1/4: one of two images changes, and loses the difference."""
    texts = zero_shot(torch.eye(2), logit_scale=math.log(3))
    first_for_all = Adapted(torch.zeros(2, 2), torch.tensor([1.0, 0.0]), True, "")
    assert second_look.cost(torch.eye(2), zero_shot=texts, by=first_for_all) == pytest.approx(1 / 4)
    assert second_look.cost(torch.eye(2), zero_shot=texts, by=texts) == 0


def test_parting_compares_the_distances_of_groups_from_the_mean():
    """At -1, -1, 1, 1: three against one lie 3 * 1/9 + 1 from the mean, two against two 4, three times that."""
    images, mean = torch.tensor([[-1.0], [-1], [1], [1]]), torch.zeros(1).double()
    before, after = torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 1])
    assert second_look.parting(images, mean=mean, before=before, after=after) == pytest.approx(3)
    nothing = torch.zeros(4).int()
    assert second_look.parting(images, mean=mean, before=nothing, after=after) == math.inf
    assert second_look.parting(images, mean=mean, before=nothing, after=nothing) == 1


def test_groups_and_the_second_look_have_limits():
    assert reject_groups(lift=0.55, parting=3.0) == reject_second_look(agreement=0.75, pull=1.0) == ""
    assert reject_groups(lift=0.54, parting=1.0) == (
        "adaptation would give a class to images that its text hardly favours (lift 0.54, adaptation needs 0.55), as "
        "where few of the classes occur: kept the zero-shot classifier"
    )
    assert reject_groups(lift=1.0, parting=3.1) == (
        "adaptation would make groups 3.1 times as distinct as the texts' (at most 3.0), as where many images are of "
        "no class: kept the zero-shot classifier"
    )
    assert reject_second_look(agreement=0.55, pull=0.8) == (
        "adaptation depends on how the mean image is read (55 % of the predictions agree, 60 % are needed), as where "
        "few of the classes occur: kept the zero-shot classifier"
    )
    assert "100 % are needed" in reject_second_look(agreement=0.99, pull=math.inf)


def without_limits(images: Pile) -> int:
    """Correct images if adaptation were trusted."""
    mean = images.features.double().mean(dim=0)
    how = {"zero_shot": zero_shot(images.texts), "logit_scale": SCALE, "mean": mean, "off": 0.5}
    adapted, _, _ = estimate(images.features, **how)
    return right(adapted.classifier, adapted.bias, images)


def test_a_full_pile_is_adapted():
    images = pile(off=1.2)
    made = adapted_to(images.features, texts=images.texts, logit_scale=SCALE)
    assert (made.adapted, made.note) == (True, "")
    assert (right(images.texts, torch.zeros(5), images), right(made.classifier, made.bias, images)) == (194, 252)


def test_adaptation_goes_as_far_as_the_texts_probabilities_allow(monkeypatch):
    """Half of the way, whose logits are the means of the texts' and of the adapted ones; further would cost more."""
    images = pile(off=1.2)
    texts = zero_shot(images.texts)

    def made(*steps: float, limit: float) -> Adapted:
        monkeypatch.setattr(adaptation, "STEPS", steps)
        monkeypatch.setattr(adaptation, "COST", limit)
        return adapted_to(images.features, texts=images.texts, logit_scale=SCALE)

    whole = made(1.0, limit=1.0)
    half = made(0.5, limit=1.0)
    means = (texts.logits(images.features) + whole.logits(images.features)) / 2
    torch.testing.assert_close(half.logits(images.features), means)
    of_half, of_whole = (second_look.cost(images.features, zero_shot=texts, by=by) for by in (half, whole))
    assert 0 < of_half < of_whole
    assert made(1.0, 0.5, 0.1, limit=of_half).classifier.equal(half.classifier)
    kept = made(1.0, 0.5, limit=0.0)
    assert is_zero_shot(kept, images.texts)
    assert kept.note.endswith("more than 0 points: kept the zero-shot classifier")


def test_a_pile_of_one_class_keeps_the_zero_shot_classifier():
    """Adaptation would split the class among names: 78 of 200 right instead of 133."""
    images = pile(counts=(0, 0, 200, 0, 0), noise=0.25)
    assert (right(images.texts, torch.zeros(5), images), without_limits(images)) == (133, 78)
    made = adapted_to(images.features, texts=images.texts, logit_scale=SCALE)
    assert is_zero_shot(made, images.texts)
    assert made.note.startswith("adaptation would give a class to images that its text hardly favours (lift 0.45")


def test_an_answer_that_depends_on_the_mean_image_keeps_the_zero_shot_classifier():
    images = pile(counts=(0, 0, 200, 0, 0), off=0.9, noise=0.3)
    made = adapted_to(images.features, texts=images.texts, logit_scale=SCALE)
    assert is_zero_shot(made, images.texts)
    assert made.note.startswith("adaptation depends on how the mean image is read (55 % of the predictions agree, 59 %")


def test_a_pile_with_foreign_images_keeps_the_zero_shot_classifier():
    """Of 300 images of the classes fewer are right after adaptation to them and 150 of two other things."""
    images = with_foreign_images(pile(off=1.2, seed=1), n_images=150, seed=100)
    assert without_limits(images) < right(images.texts, torch.zeros(5), images)
    made = adapted_to(images.features, texts=images.texts, logit_scale=SCALE)
    assert is_zero_shot(made, images.texts)
    assert made.note.startswith("adaptation would give a class to images that its text hardly favours (lift 0.13")


def test_one_class_is_refused():
    images = pile()
    with pytest.raises(DataError, match="at least two classes"):
        adapted_to(images.features, texts=torch.ones(32, 1), logit_scale=SCALE)
