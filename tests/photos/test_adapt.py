"""Adaptation without labels: formulas against plain loops, the guard, blocks, and bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from adapt_cases import Pile, pile, right, with_foreign_images
from torch import Tensor

from wsoup.base.errors import DataError
from wsoup.photos import estimation, second_look
from wsoup.photos.adaptation import adapted_to, doubt_answers, doubt_second_look
from wsoup.photos.estimation import BOLD, CAUTIOUS, Adapted, Statistics, Trust, estimate, predict_softly

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
    assert statistics.n == 4


def test_sums_are_in_double_precision():
    """1,001 times log 2, each rounded to float32; and a mean over classes of which float32 loses the last two."""
    statistics, _ = predict_softly(torch.ones(1001, 1), by=Adapted(torch.zeros(1, 2), torch.zeros(2), True, ""))
    assert statistics.entropy == pytest.approx(1001 * float(torch.tensor(2.0).log()), rel=1e-12)
    sums = torch.tensor([[2.0**24], [1.0], [1.0]])
    assert Statistics(sums, torch.ones(3), 0.0, 4).mean.tolist() == [(2**24 + 2) / 4]


def test_results_do_not_depend_on_the_block_size(monkeypatch):
    images = pile(off=1.2, seed=2)
    whole = adapted_to(images.features, texts=images.texts, logit_scale=20.0)
    monkeypatch.setattr(estimation, "LOGITS_PER_BLOCK", 35)
    blocks = adapted_to(images.features, texts=images.texts, logit_scale=20.0)
    assert whole.adapted
    torch.testing.assert_close(blocks.classifier, whole.classifier, rtol=1e-5, atol=1e-5)
    assert blocks.predict(images.features).tolist() == whole.predict(images.features).tolist()


# ----------------------------------------------------------------------------------------------- the formula, slowly


def slow_softmax(row: list[float]) -> list[float]:
    powers = [math.exp(value - max(row)) for value in row]
    return [power / sum(powers) for power in powers]


def slow_em(features: np.ndarray, texts: np.ndarray, *, scale: float, rounds: int, trust: Trust) -> np.ndarray:
    """Logits by loops over images and classes, in float64, from the docstring of `wsoup.photos.estimation`."""
    n, n_classes = len(features), texts.shape[1]
    answers = [slow_softmax([scale * float(f @ texts[:, c]) for c in range(n_classes)]) for f in features]
    mean_answer = [sum(answer[c] for answer in answers) / n for c in range(n_classes)]
    entropies = [-sum(p * math.log(p) for p in answer) for answer in [mean_answer, *answers]]
    information = (entropies[0] - sum(entropies[1:]) / n) / math.log(n_classes)
    mean = sum(features) / n
    text_logits = [[2.6 * information * scale * float(f @ texts[:, c]) for c in range(n_classes)] for f in features]
    logits = text_logits
    for _ in range(rounds):
        answers = [slow_softmax(row) for row in logits]
        centres, shares = [], []
        for c in range(n_classes):
            n_c = sum(answer[c] for answer in answers)
            total = sum(answer[c] * f for answer, f in zip(answers, features, strict=True))
            centres.append((total + trust.anchor * mean) / (n_c + trust.anchor))
            shares.append((n_c + trust.anchor) / (n + n_classes * trust.anchor))
        logits = []
        for own, f in zip(text_logits, features, strict=True):
            distances = [float((f - centre) @ (f - centre)) for centre in centres]
            near = [own[c] - trust.centres * scale * distances[c] / 2 for c in range(n_classes)]
            logits.append([near[c] + math.log(shares[c]) for c in range(n_classes)])
    return np.array(logits)


def estimated(
    images: Pile, *, logit_scale: float = SCALE, trust: Trust = BOLD, off: float = 0.0
) -> tuple[Adapted, Tensor]:
    texts = zero_shot(images.texts, logit_scale=logit_scale)
    statistics, _ = predict_softly(images.features, by=texts)
    return estimate(images.features, zero_shot=texts, texts=statistics, logit_scale=logit_scale, trust=trust, off=off)


@pytest.mark.parametrize("trust", [BOLD, CAUTIOUS])
def test_em_follows_its_formula(monkeypatch, trust):
    """But for what all classes have in common: half of the squared length of an image."""
    monkeypatch.setattr(estimation, "SETTLED", -1.0)
    images = pile(counts=(30, 12, 5))
    adapted, predictions = estimated(images, trust=trust)
    arrays = images.features.double().numpy(), images.texts.double().numpy()
    slow = slow_em(*arrays, scale=SCALE, rounds=10, trust=trust)
    common = trust.centres * SCALE / 2 * images.features.square().sum(dim=1, keepdim=True)
    np.testing.assert_allclose(adapted.logits(images.features) - common, slow, atol=1e-3)
    assert predictions.tolist() == slow.argmax(axis=1).tolist()


def test_two_images_by_hand(monkeypatch):
    """Images at 1 and -1, certain of one text each: counts of 33 of 66, centres 1/33 and -1/33, texts at 2.6 times."""
    monkeypatch.setattr(estimation, "ROUNDS", 1)
    images = Pile(torch.tensor([[1.0], [-1.0]]), torch.tensor([[1.0, -1.0]]), torch.tensor([0, 1]))
    adapted, predictions = estimated(images, logit_scale=100.0)
    torch.testing.assert_close(adapted.classifier, torch.tensor([[1.0, -1.0]]) * (260 + 200 / 33))
    assert adapted.bias.tolist() == pytest.approx([math.log(1 / 2) - 100 / 33**2] * 2)
    assert predictions.tolist() == [0, 1]


def test_the_mean_image_favours_no_class_once_it_is_taken_off(monkeypatch):
    """Images at 1 and 3 of one text and its opposite: less their mean of 2, one is for each."""
    monkeypatch.setattr(estimation, "ROUNDS", 1)
    images = Pile(torch.tensor([[1.0], [3.0]]), torch.tensor([[1.0, -1.0]]), torch.tensor([0, 0]))
    texts = zero_shot(images.texts, logit_scale=1.0)
    statistics, _ = predict_softly(images.features, by=texts)
    how = {"zero_shot": texts, "texts": statistics, "logit_scale": 1e-6, "trust": BOLD}
    assert estimate(images.features, off=0.0, **how)[1].tolist() == [0, 0]
    assert estimate(images.features, off=1.0, **how)[1].tolist() == [1, 0]


def test_a_constant_added_to_all_images_changes_nothing():
    """As where all images of an encoder lie in a cone: distances from centres stay, and texts do not see it."""
    images = pile(off=1.2, seed=2)
    n_images, n_classes = len(images.labels), images.texts.shape[1]
    shifted = Pile(
        torch.cat([images.features, torch.full((n_images, 1), 3.0)], dim=1),
        torch.cat([images.texts, torch.zeros(1, n_classes)]),
        images.labels,
    )
    for off in (0.0, 1.0):
        plain, predictions = estimated(images, off=off)
        there, predictions_there = estimated(shifted, off=off)
        assert predictions_there.tolist() == predictions.tolist()
        expected = plain.logits_of(images.features).softmax(dim=1)
        torch.testing.assert_close(there.logits_of(shifted.features).softmax(dim=1), expected, rtol=1e-3, atol=1e-4)


def test_em_stops_when_predictions_settle(monkeypatch):
    passes = []

    def counted(features: Tensor, *, by: Adapted) -> tuple[Statistics, Tensor]:
        passes.append(1)
        return predict_softly(features, by=by)

    monkeypatch.setattr(estimation, "predict_softly", counted)
    for how, n_passes in (({"noise": 0.01, "off": 0.1}, 2), ({"off": 1.2}, 4)):  # the start, rounds
        estimated(pile(**how))
        assert len(passes) == n_passes
        passes.clear()


# ----------------------------------------------------------------------------------------------------- what it is for


@pytest.mark.parametrize("seed", range(5))
def test_em_helps_where_images_cluster(seed):
    images = pile(off=1.2, seed=seed)
    adapted, _ = estimated(images)
    before = right(images.texts, torch.zeros(5), images)
    assert before < 210
    assert right(adapted.classifier, adapted.bias, images) > before + 10


@pytest.mark.parametrize("counts", [(100, 50, 25, 15, 10), (60, 60, 0, 0, 0), (0, 0, 200, 0, 0)])
def test_em_does_not_hurt_with_rare_or_absent_classes(counts):
    before = after = 0
    for seed in range(8):
        images = pile(counts=counts, off=1.0, seed=seed)
        adapted, _ = estimated(images)
        before += right(images.texts, torch.zeros(5), images)
        after += right(adapted.classifier, adapted.bias, images)
    assert after > before


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
    images = pile(off=1.2)  # information 0.24 and 0.29
    notes = [adapted_to(images.features, texts=images.texts, logit_scale=scale).note for scale in (6.0, 7.0)]
    assert ["class texts tell little about these images" in note for note in notes] == [True, False]


def test_one_image_or_one_class_keeps_the_zero_shot_classifier():
    images = pile(counts=(60, 0, 0, 0, 0), off=0.1)
    for features in (images.features[:1], images.features):
        assert is_zero_shot(adapted_to(features, texts=images.texts, logit_scale=SCALE), images.texts)


def test_a_pile_needs_eight_images_for_each_class():
    images = pile(off=1.0)
    few = adapted_to(images.features[:39], texts=images.texts, logit_scale=SCALE)
    assert is_zero_shot(few, images.texts)
    assert few.note == "39 images for 5 classes, adaptation needs 8 for each: kept the zero-shot classifier"
    one = adapted_to(images.features[:1], texts=images.texts, logit_scale=SCALE)
    assert one.note.startswith("1 image for 5 classes, ")
    enough = adapted_to(images.features[:40], texts=images.texts, logit_scale=SCALE)
    assert not enough.note.startswith("40 images")


# ------------------------------------------------------------------------------------------------------------ copies


def test_copies_change_no_answer_and_are_told():
    """150 copies of a photo, at any place and with the rounding of half precision, would pass for a class."""
    images = pile(off=0.6, noise=0.1, seed=2)
    copies = images.features[:1].repeat(150, 1).half().float()
    alone = adapted_to(images.features, texts=images.texts, logit_scale=20.0)
    with_copies = torch.cat([images.features[:200], copies, images.features[200:]])
    made = adapted_to(with_copies, texts=images.texts, logit_scale=20.0)
    assert torch.equal(made.classifier, alone.classifier)
    assert torch.equal(made.bias, alone.bias)
    assert made.note == f"{alone.note}; 150 of 450 images are copies, and each photo counts once"


def test_copies_do_not_make_a_pile_large_enough():
    images = pile(off=1.0)
    few = adapted_to(images.features[:5].repeat(8, 1), texts=images.texts, logit_scale=SCALE)
    assert is_zero_shot(few, images.texts)
    assert few.note == (
        "5 images for 5 classes, adaptation needs 8 for each: kept the zero-shot classifier; "
        "35 of 40 images are copies, and each photo counts once"
    )


# -------------------------------------------------------------------------------------------------- the second look


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
    look = {"zero_shot": texts}
    assert second_look.cost(torch.eye(2), predictions=torch.tensor([0, 0]), **look) == pytest.approx(1 / 4)
    assert second_look.cost(torch.eye(2), predictions=torch.tensor([0, 1]), **look) == 0


def test_spread_is_the_variance_along_the_texts_over_that_of_a_mean_direction():
    """Variances of 2 and 1/2 along two axes, 5/4 on average; a constant, of images or of texts, counts for nothing."""
    images = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])

    def spread(*texts: list[float], added: float = 0.0) -> float:
        by = zero_shot(torch.tensor(texts).T + added)
        statistics, _ = predict_softly(images + added, by=by)
        return second_look.spread(images + added, zero_shot=by, texts=statistics)

    assert spread([1.0, 0.0], [-1.0, 0.0]) == pytest.approx(2 / 1.25)
    assert spread([0.0, 1.0], [0.0, -1.0]) == pytest.approx(0.5 / 1.25)
    assert spread([1.0, 1.0], [-1.0, -1.0]) == pytest.approx(1)
    assert spread([1.0, 0.0], [-1.0, 0.0], added=3.0) == pytest.approx(1.6, rel=1e-4)
    by = zero_shot(torch.eye(2))
    statistics, _ = predict_softly(torch.ones(4, 2), by=by)
    assert second_look.spread(torch.ones(4, 2), zero_shot=by, texts=statistics) == 1


def test_a_note_doubts_texts_that_may_be_random():
    """Groups of images get the names of random texts, too; of texts that are close to the classes nothing is said."""
    said = []
    for seed in range(20):
        images = pile(noise=0.3, size=64, seed=seed)
        draw = torch.Generator().manual_seed(seed)
        texts = torch.nn.functional.normalize(torch.randn(64, 5, generator=draw), dim=0)
        made = adapted_to(images.features, texts=texts, logit_scale=40.0)
        own = adapted_to(images.features, texts=images.texts, logit_scale=40.0)
        assert "random" not in own.note
        if made.adapted:
            said.append("; photos differ by these texts hardly more than by random ones (" in made.note)
    assert len(said) >= 10
    assert sum(said) >= 0.8 * len(said)


def test_texts_that_are_all_the_same_keep_the_zero_shot_classifier():
    images = pile(off=0.6)
    same = images.texts[:, :1].expand(-1, 5).contiguous()
    made = adapted_to(images.features, texts=same, logit_scale=100.0)
    assert not made.adapted
    assert made.note.startswith("class texts barely tell these images apart (information 0.00, ")


def test_answers_and_the_second_look_have_limits():
    assert doubt_answers(cost=0.07, lift=0.4) == doubt_second_look(0.85) == ""
    assert doubt_answers(cost=0.071, lift=1.0) == (
        "bold adaptation would cost 7.1 points if the texts' own probabilities are right, more than 7, as where many "
        "images are of no class"
    )
    assert doubt_answers(cost=0.0, lift=0.39) == (
        "bold adaptation would give a class to images that its text hardly favours (lift 0.39, less than 0.40), as "
        "where few of the classes occur"
    )
    assert doubt_second_look(0.84) == (
        "bold adaptation depends on how the mean image is read (84 % of the predictions agree, less than 85), as where "
        "few of the classes occur"
    )


def test_a_full_pile_is_adapted_boldly():
    images = pile(off=0.6, noise=0.1, seed=2)
    made = adapted_to(images.features, texts=images.texts, logit_scale=20.0)
    changed = n_changed(made, images)
    share = round(100 * changed / 300)
    assert made.adapted
    assert made.note == (
        f"adapted to 300 images: {changed} of them ({share} %) get another class than by the texts alone"
    )
    assert (right(images.texts, torch.zeros(5), images), right(made.classifier, made.bias, images)) == (235, 269)


def n_changed(made: Adapted, images: Pile) -> int:
    by_texts = (images.features @ images.texts).argmax(dim=1)
    return int((made.predict(images.features) != by_texts).sum())


def test_in_a_pile_of_one_class_hardly_an_answer_changes():
    """Boldly, some images of the class would get a name whose text hardly favours them."""
    images = pile(counts=(0, 0, 200, 0, 0), noise=0.25)
    made = adapted_to(images.features, texts=images.texts, logit_scale=SCALE)
    assert n_changed(made, images) == 2
    assert made.note == (
        "adapted to 200 images: 2 of them (1 %) get another class than by the texts alone; cautiously, because bold "
        "adaptation would give a class to images that its text hardly favours (lift 0.21, less than 0.40), as where "
        "few of the classes occur; photos differ by these texts hardly more than by random ones (0.98 times as much): "
        "see that the texts are this model's and name what the photos show"
    )


def test_an_answer_that_depends_on_the_mean_image_is_cautious():
    images = pile(counts=(60, 60, 0, 0, 0), off=1.0)
    made = adapted_to(images.features, texts=images.texts, logit_scale=SCALE)
    assert n_changed(made, images) == 8
    assert "bold adaptation depends on how the mean image is read (65 % of the predictions agree" in made.note


def test_a_pile_with_foreign_images_is_adapted_cautiously():
    """Of 300 images of the classes fewer are right after bold adaptation to them and 150 of two other things."""
    images = with_foreign_images(pile(off=1.2, seed=1), n_images=150, seed=100)
    bold, _ = estimated(images)
    by_texts = right(images.texts, torch.zeros(5), images)
    assert right(bold.classifier, bold.bias, images) < by_texts - 5
    made = adapted_to(images.features, texts=images.texts, logit_scale=SCALE)
    assert right(made.classifier, made.bias, images) >= by_texts - 2
    assert "bold adaptation would cost 10.9 points if the texts' own probabilities are right" in made.note


def test_the_order_of_images_and_of_classes_is_irrelevant():
    images = pile(off=1.2, seed=2)
    made = adapted_to(images.features, texts=images.texts, logit_scale=20.0)
    order = torch.randperm(len(images.labels), generator=torch.Generator().manual_seed(0))
    turned = adapted_to(images.features[order], texts=images.texts.flip(1), logit_scale=20.0)
    assert (4 - turned.predict(images.features)).tolist() == made.predict(images.features).tolist()


def test_one_class_is_refused():
    images = pile()
    with pytest.raises(DataError, match="at least two classes"):
        adapted_to(images.features, texts=torch.ones(32, 1), logit_scale=SCALE)
