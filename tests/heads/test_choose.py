"""Choosing on the few-shot images: folds, settings, temperature, threshold, and that nothing else is seen."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from heads_cases import few_shots, left_out_logits, on_a_circle, unit

from wsoup.base.errors import DataError, MismatchError, ParamsError
from wsoup.core.member import Member
from wsoup.core.soup import Soup
from wsoup.heads import calibration, prior
from wsoup.heads.calibration import fit_temperature, log_loss, threshold
from wsoup.heads.choose import choose, evidence
from wsoup.heads.fewshot import FewShot, checked
from wsoup.heads.kinds import Setting
from wsoup.heads.prior import photos_per_text
from wsoup.heads.prototypes import Prototypes
from wsoup.heads.ridge import Ridge
from wsoup.heads.zero_shot import soup_texts
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.logit_scale import logit_scale_of

NAMES = ["cat", "dog", "bird", "fish"]


def test_fold_j_leaves_out_shot_j_of_each_class():
    shots = FewShot(on_a_circle(*range(6)), torch.tensor([1, 0, 1, 1, 0, 2]), on_a_circle(0, 1, 2).T, 1.0)
    assert shots.folds.tolist() == [0, 0, 1, 2, 1, -1]  # class 2 has but one
    assert shots.n_folds == 3


def test_with_one_shot_the_prior_decides():
    shots = FewShot(on_a_circle(1, 91, 181), torch.arange(3), on_a_circle(0, 90, 20).T, 10.0)
    chosen = choose(shots, kind="both")
    expected = photos_per_text(shots).expected
    by_hand = (Prototypes(1 / expected).fit(shots) + Ridge(expected).fit(shots)) / 2
    torch.testing.assert_close(chosen.classifier, by_hand)
    assert chosen.setting == pytest.approx({"weight": 1 / expected, "penalty": expected})
    assert (len(chosen.right), chosen.temperature) == (0, 1.0)
    assert "no class has two images to leave one out: settings for one shot" in chosen.note


def cost_by_hand(setting: Setting, logits: torch.Tensor, shots: FewShot, *, temperature: float) -> float:
    """Images times their mean loss, one loop for each class, and half of the squared distance from the prior."""
    losses = torch.nn.functional.cross_entropy(logits / temperature, shots.labels, reduction="none")
    means = [float(losses[shots.labels == label].mean()) for label in range(shots.n_classes)]
    distance = math.log(setting.photos_per_text / photos_per_text(shots).expected) / 0.7
    return len(shots.labels) * sum(means) / len(means) + distance**2 / 2


@pytest.mark.parametrize("kind", [Prototypes, Ridge])
@pytest.mark.parametrize("counts", [(4,) * 4, (40,) * 4, (2, 2, 3, 9)])
def test_the_most_probable_setting_is_chosen(kind, counts):
    shots = few_shots(counts=counts, seed=3)
    costs = {}
    for setting, logits in left_out_logits(kind, shots).items():
        if setting.photos_per_text < photos_per_text(shots).least:
            continue
        degree = fit_temperature(logits, shots.labels)
        cost = cost_by_hand(setting, logits, shots, temperature=degree)
        costs[setting] = (cost, degree, int((logits.argmax(dim=1) == shots.labels).sum()))
    best = min(costs, key=lambda setting: costs[setting][0])
    chosen = choose(shots, kind=kind.__name__.lower())
    assert (chosen.setting, int(chosen.right.sum()), chosen.note) == (vars(best), costs[best][2], "")
    assert torch.equal(chosen.classifier, best.fit(shots))
    assert chosen.temperature == costs[best][1]


def test_left_out_images_of_one_class_say_little_of_the_others():
    """Two images of class 0 with a loss of ln 2 each; three of four classes have one image: a quarter of 2 ln 2."""
    shots = FewShot(
        on_a_circle(0, 10, 90, 180, 270), torch.tensor([0, 0, 1, 2, 3]), on_a_circle(0, 90, 180, 270).T, 1.0
    )
    logits = torch.tensor([[0.0, 0.0, -1e3, -1e3]] * 2, dtype=torch.float64)
    assert evidence(logits, shots, temperature=1.0) == pytest.approx(2 * math.log(2) / 4)


def test_each_class_says_the_same_however_many_images_it_has():
    """Class 0 has four images with a loss of ln 2, class 1 two without: six times the mean of ln 2 and 0."""
    degrees = (0, 5, 10, 15, 90, 95)
    shots = FewShot(on_a_circle(*degrees), torch.tensor([0, 0, 0, 0, 1, 1]), on_a_circle(0, 90).T, 1.0)
    logits = torch.tensor([[0.0, 0.0]] * 4 + [[-1e3, 1e3]] * 2, dtype=torch.float64)
    assert evidence(logits, shots, temperature=1.0) == pytest.approx(6 * math.log(2) / 2)


def test_the_prior_fades_with_the_number_of_left_out_images(monkeypatch):
    """Two priors, the second a hundred times the first: how many times as much weight the photos get with the first."""

    def times(shots: FewShot) -> float:
        weights = []
        for scale in (200.0, 20_000.0):
            monkeypatch.setattr(prior, "SCALE", scale)
            weights.append(choose(shots, kind="prototypes").setting["weight"])
        larger, smaller = weights
        return larger / smaller

    assert times(few_shots(counts=(1,) * 4)) == pytest.approx(100)
    assert times(few_shots(counts=(8,) * 4)) == 16
    assert times(few_shots(counts=(60,) * 4)) == 1


def test_both_is_the_mean_of_calibrated_logits():
    shots = few_shots(counts=(4, 4, 4, 4), seed=3)
    of = [choose(shots, kind=kind) for kind in ("prototypes", "ridge")]
    both = choose(shots, kind="both")
    assert both.setting == {**of[0].setting, **of[1].setting}
    torch.testing.assert_close(both.classifier, sum(one.classifier / one.temperature for one in of) / 2)
    logits = torch.zeros(16, 4, dtype=torch.float64)
    for kind, one in ((Prototypes, of[0]), (Ridge, of[1])):
        left_out = left_out_logits(kind, shots)[kind(**one.setting)]
        logits += left_out / one.temperature / 2
    assert both.temperature == pytest.approx(fit_temperature(logits, shots.labels))
    assert both.right.tolist() == (logits.argmax(dim=1) == shots.labels).tolist()
    torch.testing.assert_close(both.confidences, (logits / both.temperature).softmax(dim=1).amax(dim=1))


def test_an_unknown_kind_is_refused():
    with pytest.raises(ParamsError, match="kind is 'forest'; expected one of prototypes, ridge, both"):
        choose(few_shots(), kind="forest")


# ---------------------------------------------------------------------------------------------- temperature, threshold


def test_the_temperature_minimises_its_cost():
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 4, generator=draw, dtype=torch.float64) * 3
    labels = (logits + 3 * torch.randn(50, 4, generator=draw, dtype=torch.float64)).argmax(dim=1)

    def cost(at: float) -> float:
        loss = sum(-float((row / at).log_softmax(dim=0)[label]) for row, label in zip(logits, labels, strict=True))
        return loss + 2 * math.log(at) ** 2

    degree = fit_temperature(logits, labels)
    assert all(cost(degree) <= cost(degree * factor) for factor in (0.9, 0.99, 1.01, 1.1))
    assert fit_temperature(logits[:0], labels[:0]) == 1.0


def test_the_temperature_may_be_far_from_one():
    """Three of four images are right, so p is 3/4: logits 10 and 0 need a temperature of 10 / ln 3, about 9.1."""
    for scale in (10.0, 0.1):
        logits = torch.tensor([[scale, 0.0]], dtype=torch.float64).repeat(4000, 1)
        labels = (torch.arange(4000) % 4 == 0).long()
        assert fit_temperature(logits, labels) == pytest.approx(scale / math.log(3), rel=0.02)


def test_a_threshold_is_the_smallest_confidence_that_reaches_the_precision():
    confidences = torch.tensor([0.9, 0.8, 0.78, 0.7, 0.6])
    right = torch.tensor([True, True, True, False, False])
    assert threshold(confidences, right, precision=0.75) == pytest.approx(0.78)  # (0 + 1) / (3 + 1)
    assert threshold(confidences, right, precision=0.6) == pytest.approx(0.7)  # (1 + 1) / (4 + 1)
    assert threshold(confidences[:0], right[:0], precision=0.5) == math.inf
    assert threshold(torch.full((4,), 0.9), right[:4], precision=0.75) == 0.75  # equal ones stay together


def test_a_threshold_is_never_below_the_precision():
    """All of four are right, which would do for 0.75; but 0.5 says itself that it is wrong half the time."""
    confidences = torch.tensor([0.9, 0.8, 0.7, 0.5])
    assert threshold(confidences, torch.ones(4, dtype=torch.bool), precision=0.75) == 0.75


def test_nine_right_ones_are_enough_for_nine_tenths():
    """(0 + 1) / (9 + 1) is 1 - 0.9; eight are too few."""
    confidences = torch.tensor([0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99])
    right = torch.ones(9, dtype=torch.bool)
    assert threshold(confidences, right, precision=0.9) == pytest.approx(0.92)
    assert threshold(confidences[1:], right[1:], precision=0.9) == 0.9, "the probability itself"


def test_a_wrong_answer_just_as_probable_as_the_precision_contradicts_it():
    confidences = torch.tensor([0.75])
    assert threshold(confidences, torch.tensor([False]), precision=0.75) == math.inf
    assert threshold(confidences, torch.tensor([False]), precision=0.875) == 0.875, "none is that probable"


def test_one_wrong_of_ten_does_not_contradict_nine_tenths():
    """Though 10 x (1 - 0.9) is a little less than 1 in floats; one of nine is more than a tenth."""
    confidences = torch.linspace(0.99, 0.91, 10)
    right = torch.arange(10) > 0
    assert threshold(confidences, right, precision=0.9) == 0.9
    assert threshold(confidences[:9], right[:9], precision=0.9) == math.inf


def test_where_few_images_prove_nothing_the_probability_itself_is_the_threshold():
    """19 right ones would prove 95 per cent. With fewer, calibration speaks, unless an image contradicts it."""
    confidences = torch.tensor([0.99, 0.96, 0.7])
    right = torch.tensor([True, True, False])
    assert threshold(confidences, right, precision=0.95) == 0.95
    assert threshold(confidences, right, precision=0.98) == 0.98
    assert threshold(torch.tensor([0.6]), torch.tensor([True]), precision=0.95) == 0.95  # nothing speaks against it
    contradicted = torch.tensor([True, False, True])
    assert threshold(confidences, contradicted, precision=0.95) == math.inf
    assert threshold(confidences, contradicted, precision=0.98) == 0.98  # the wrong one is not among those


def test_without_left_out_images_nothing_is_calibrated():
    assert threshold(torch.empty(0), torch.empty(0, dtype=torch.bool), precision=0.95) == math.inf


# ------------------------------------------------------------------------------------------------- what is refused


def given(degrees, labels):
    texts = unit(torch.ones(2, len(NAMES)).T).T
    return checked(on_a_circle(*degrees).float(), torch.tensor(labels), texts=texts, logit_scale=20.0, names=NAMES)


def test_duplicates_are_dropped():
    shots, note = given([0, 40, 0.01, 80, 120], [0, 1, 0, 2, 3])
    assert note == "dropped 1 of 5 images as duplicates"
    assert shots.labels.tolist() == [0, 1, 2, 3]
    assert len(given([0, 40, 0.5, 80, 120], [0, 1, 0, 2, 3])[0].labels) == 5  # half a degree apart: two photos


def test_bad_images_texts_and_classes_are_refused():
    with pytest.raises(DataError, match="images 0 and 2 are the same photo, labelled 'cat' and 'bird'"):
        given([0, 40, 0, 80, 120], [0, 1, 2, 2, 3])
    with pytest.raises(DataError, match="no image of 'bird', 'fish': a head needs one of each class"):
        given([0, 40, 80], [0, 0, 1])
    x, y = on_a_circle(0, 90), torch.tensor([0, 1])
    good = {"texts": on_a_circle(0, 90).T, "logit_scale": 1.0, "names": ["a", "b"]}
    with pytest.raises(MismatchError, match="image features have 2 dimensions, and the texts of 3 classes 2"):
        checked(x, y, **{**good, "texts": torch.ones(2, 3)})


def test_nine_right_images_are_enough_for_a_precision_of_nine_tenths():
    """(0 + 1) / (9 + 1), though (1 - 0.9) * 10 is less than 1 in floats."""
    right = torch.ones(9, dtype=torch.bool)
    confidences = torch.linspace(0.91, 0.99, 9, dtype=torch.float64)
    assert threshold(confidences, right, precision=0.9) == pytest.approx(0.91)
    assert threshold(confidences[:8], right[:8], precision=0.9) == 0.9


def test_the_logit_scale_of_a_model_is_the_exponential_of_what_it_learns():
    assert logit_scale_of(SimpleNamespace(logit_scale=torch.tensor(math.log(50.0)))) == pytest.approx(50.0)
    assert logit_scale_of(SimpleNamespace()) == logit_scale_of(SimpleNamespace(logit_scale=None)) == 100.0


@pytest.mark.parametrize(("limit", "number"), [("ROWS", 3), ("LOGITS", 11), ("LOGITS", 3)])
def test_a_loss_is_a_mean_over_images_whatever_their_number(monkeypatch, limit, number):
    """Ten images of four classes, in blocks of three, two and one."""
    monkeypatch.setattr(calibration, limit, number)
    logits = torch.randn(10, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(10) % 4
    expected = float(torch.nn.functional.cross_entropy(logits / 2, labels))
    assert log_loss(logits, labels, temperature=2.0) == pytest.approx(expected)


def test_texts_of_a_soup_are_the_means_of_its_members(tiny_encoder):
    soup = Soup("top", 1, "a {}.", tiny_encoder.id, (Member("sharp"), Member("which is red")))
    encoder = PromptEncoder.of(tiny_encoder)
    texts = soup_texts(soup, template="a {}.", class_names=["cat", "dog"], text_encoder=encoder)
    members = encoder.encode_grid(["a cat", "a dog"], [", sharp.", ", which is red."])  # (M, C, D)
    torch.testing.assert_close(texts.mean, members.mean(dim=0))
    assert float(texts.mean.norm(dim=1).max()) < 0.9999
