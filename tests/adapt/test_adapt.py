"""Facts about adaptation without labels: its formula, what guards it, blocks, streams, and what is refused."""

from __future__ import annotations

import inspect
import math
import typing

import numpy as np
import pytest
import torch
from adapt_cases import pile, right
from torch import Tensor

from wsoup.adapt import adapted as adapted_module
from wsoup.adapt import answers as answers_module
from wsoup.adapt import center as center_module
from wsoup.adapt import em as em_module
from wsoup.adapt import guard, kinds, passes
from wsoup.adapt import stream as stream_module
from wsoup.adapt.adapted import Adapted, texts_alone
from wsoup.adapt.answers import answers
from wsoup.adapt.em import estimated
from wsoup.adapt.kinds import KINDS, adapt
from wsoup.adapt.passes import Seen, look
from wsoup.adapt.stream import stream
from wsoup.core.errors import DataError, MismatchError, ParamsError

SCALE = 12.0


# ---------------------------------------------------------------------------------------------------- one pass


def test_what_an_answer_tells_is_one_where_answers_are_sure_and_differ():
    """Two images, two classes: sure of one each tells log 2 of log 2; both of the same, or in doubt, nothing."""
    texts = texts_alone(torch.eye(2), logit_scale=1e3, kind="em")
    assert look(torch.eye(2), by=texts)[0].information == pytest.approx(1)
    assert look(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), by=texts)[0].information == pytest.approx(0)
    assert look(torch.tensor([[0.6, 0.6], [0.7, 0.7]]), by=texts)[0].information == pytest.approx(0, abs=1e-9)


def test_a_pass_adds_up_images_by_their_probabilities():
    """Logits (log 3, 0): three quarters of the image go to the first class."""
    by = Adapted("em", torch.tensor([[math.log(3), 0.0]]), torch.zeros(2), True, "")
    seen, answers = look(torch.ones(4, 1), by=by)
    assert seen.counts.tolist() == pytest.approx([3, 1])
    assert seen.sums[:, 0].tolist() == pytest.approx([3, 1])
    assert seen.mean.tolist() == pytest.approx([1])
    assert answers.tolist() == [0, 0, 0, 0]
    assert seen.effective_classes == pytest.approx(1 / 2)


def test_two_passes_add_up_to_one_over_all_and_one_stands_for_many():
    images = pile()
    by = texts_alone(images.texts, logit_scale=SCALE, kind="em")
    whole, first, rest = (look(part, by=by)[0] for part in (images.features, *images.features.split([100, 200])))
    for seen in (first + rest, whole * 0.5 + whole * 0.5):
        torch.testing.assert_close(seen.sums, whole.sums, rtol=1e-4, atol=1e-4)
        assert (seen.n, seen.information) == pytest.approx((300, whole.information), rel=1e-5)


def test_blocks_change_nothing(monkeypatch):
    images = pile()
    whole = adapt(images.features, texts=images.texts, logit_scale=SCALE, kind="em")
    for module in (adapted_module, passes):
        monkeypatch.setattr(module, "rows_at_once", lambda classes: 7)
    blocks = adapt(images.features, texts=images.texts, logit_scale=SCALE, kind="em")
    torch.testing.assert_close(blocks.classifier, whole.classifier, rtol=1e-5, atol=1e-5)
    assert blocks.predict(images.features).tolist() == whole.predict(images.features).tolist()


# ----------------------------------------------------------------------------------------------- the formula, slowly


def slow_em(features: np.ndarray, texts: np.ndarray, *, scale: float, rounds: int) -> np.ndarray:
    """Logits by loops over images and classes, in float64, from the docstring of `wsoup.adapt.em`."""
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


def test_em_is_its_formula():
    images = pile(counts=(30, 12, 5))
    alone = texts_alone(images.texts, logit_scale=SCALE, kind="em")
    first = look(images.features, by=alone)
    made = estimated(images.features, alone=alone, logit_scale=SCALE, first=first, settled=-1.0)
    slow = slow_em(images.features.double().numpy(), images.texts.double().numpy(), scale=SCALE, rounds=10)
    np.testing.assert_allclose(made.adapted.logits(images.features), slow, atol=1e-3)
    answers, before = slow.argmax(axis=1), (images.features @ images.texts).argmax(dim=1).numpy()
    assert made.after.answered.tolist() == np.bincount(answers, minlength=3).tolist()
    assert made.stays == (answers == before).sum()


def test_center_takes_the_mean_image_off():
    images = pile()
    made = adapt(images.features, texts=images.texts, logit_scale=SCALE, kind="center")
    assert made.adapted
    by_hand = SCALE * (images.features - images.features.mean(dim=0)) @ images.texts
    torch.testing.assert_close(made.logits(images.features), by_hand, rtol=1e-4, atol=1e-4)


def test_em_ends_when_answers_settle():
    images = pile(noise=0.01, off=0.1)
    alone = texts_alone(images.texts, logit_scale=SCALE, kind="em")
    looks = []
    real = em_module.look
    try:
        em_module.look = lambda features, *, by: looks.append(1) or real(features, by=by)
        estimated(images.features, alone=alone, logit_scale=SCALE, first=real(images.features, by=alone))
    finally:
        em_module.look = real
    assert len(looks) < em_module.ROUNDS


# ----------------------------------------------------------------------------------------------------- what it is for


@pytest.mark.parametrize("seed", range(5))
def test_em_names_more_images_right_where_images_cluster(seed):
    images = pile(off=1.2, seed=seed)
    made = adapt(images.features, texts=images.texts, logit_scale=SCALE, kind="em")
    before = right(images.texts, torch.zeros(5), images)
    assert before < 300
    assert right(made.classifier, made.bias, images) >= before


@pytest.mark.parametrize("counts", [(100, 50, 25, 15, 10), (60, 60, 0, 0, 0)])
def test_rare_and_absent_classes_take_no_more_images_from_others_than_they_give(counts):
    before = after = 0
    for seed in range(8):
        images = pile(counts=counts, off=1.0, seed=seed)
        made = adapt(images.features, texts=images.texts, logit_scale=SCALE, kind="em")
        before += right(images.texts, torch.zeros(5), images)
        after += right(made.classifier, made.bias, images)
    assert after >= before


def test_the_order_of_images_does_not_matter():
    images = pile(off=1.2)
    one = adapt(images.features, texts=images.texts, logit_scale=SCALE, kind="em")
    other = adapt(images.features.flip(0), texts=images.texts, logit_scale=SCALE, kind="em")
    torch.testing.assert_close(one.classifier, other.classifier, rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------------------------------------------------ the guard


def is_texts(made: Adapted, texts: Tensor) -> bool:
    return not made.adapted and torch.equal(made.classifier, SCALE * texts) and not made.bias.any()


@pytest.mark.parametrize("kind", KINDS)
def test_where_texts_tell_nothing_they_stay_as_they_are(kind):
    images = pile()
    draw = torch.Generator().manual_seed(1)
    texts = torch.nn.functional.normalize(images.texts[:, :1] + 0.05 * torch.randn(32, 5, generator=draw), dim=0)
    made = adapt(images.features, texts=texts, logit_scale=SCALE, kind=kind)
    assert is_texts(made, texts)
    assert made.note.startswith("the texts tell too little apart here (0.0")


@pytest.mark.parametrize("kind", KINDS)
def test_one_image_or_one_class_of_images_changes_nothing(kind):
    images = pile(counts=(60, 0, 0, 0, 0), off=0.1)
    for features in (images.features[:1], images.features):
        assert is_texts(adapt(features, texts=images.texts, logit_scale=SCALE, kind=kind), images.texts)


def seen(*, answered: tuple[int, ...], doubt: float = 0.0) -> Seen:
    counts = torch.tensor(answered, dtype=torch.float64)
    return Seen(torch.zeros(len(answered), 2), counts, counts, doubt)


def test_the_more_texts_tell_the_less_may_be_overturned():
    """Texts that tell 0.4 leave 0.6 open: two thirds of that, 0.4 of the answers, may change."""
    texts = seen(answered=(50, 50), doubt=100 * math.log(2) * 0.6)
    assert texts.information == pytest.approx(0.4)
    assert guard.after(texts, texts, stays=0.61) == ""
    assert guard.after(texts, texts, stays=0.59) == (
        "adaptation would overturn 41 % of the texts' answers, and they tell too much apart (0.40) to be wrong in "
        "more than 40 %: theirs stay"
    )


def test_answers_spread_over_nearly_all_classes_or_over_no_more_than_before():
    """Of ten classes: effective 0.2 before; 0.1 and 0.9 after are believed, 0.5 is not."""
    few, one, half, most = (seen(answered=(1,) * n + (0,) * (10 - n)) for n in (2, 1, 5, 9))
    assert guard.after(few, one, stays=0.99) == guard.after(few, most, stays=0.99) == ""
    said = "adaptation would spread answers over more classes (0.50 effective, of the texts' 0.20), though not over all"
    assert guard.after(few, half, stays=0.99) == f"{said}: the texts' answer stays"


def test_the_mean_of_few_classes_is_not_taken_off():
    images = pile(counts=(80, 80, 0, 0, 0), off=0.3)
    made = adapt(images.features, texts=images.texts, logit_scale=SCALE, kind="center")
    assert is_texts(made, images.texts)
    assert "classes are not there in equal parts (0.4" in made.note


# ------------------------------------------------------------------------------------------------- streams, labels


HOW = {"logit_scale": SCALE, "kind": "em"}


def test_a_batch_is_answered_with_what_came_before_it():
    """While few images are known, all of them are answered again with each batch that makes them a quarter more."""
    images = pile(off=1.2)
    batches = images.features.split(64)
    answered = list(stream(batches, texts=images.texts, **HOW))
    assert [len(batch) for batch, _ in answered] == [64, 64, 64, 64, 44]
    for i, (_, made) in enumerate(answered[:4]):
        whole = adapt(torch.cat(batches[: i + 1]), texts=images.texts, **HOW)
        torch.testing.assert_close(made.classifier, whole.classifier, rtol=1e-4, atol=1e-4)


def test_between_those_a_batch_adds_its_sums_to_those_of_the_batches_before(monkeypatch):
    """By loops, from the docstrings: soft answers of the second batch by the first one's classifier, one round."""
    monkeypatch.setattr(guard, "before", lambda seen: "")
    monkeypatch.setattr(guard, "after", lambda texts, adapted, stays: "")
    images = pile(counts=(30, 20, 20), off=1.0)
    first, second = images.features.split([40, 30])
    (_, one), (_, two) = stream([first, second], texts=images.texts, growth=1e9, **HOW)
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


def test_however_long_a_stream_is_a_few_images_are_kept_and_a_batch_costs_the_same(monkeypatch):
    """Of 3,000 images 200 to 399 are kept, and answered again whenever there are a quarter more: not once a batch."""
    looked_at = []

    def counted(features, *, by):
        looked_at.append(len(features))
        return look(features, by=by)

    monkeypatch.setattr(em_module, "look", counted)
    images = pile(counts=(600,) * 5, off=1.0)
    answered = list(stream(images.features.split(10), texts=images.texts, keep=200, **HOW))
    assert max(looked_at) < 400
    assert sum(n > 10 for n in looked_at) <= 24 * em_module.ROUNDS  # 10 x 1.25^24 = 2,118
    last = answered[-1][1]
    whole = adapt(images.features, texts=images.texts, **HOW)
    assert last.adapted
    assert abs(right(last.classifier, last.bias, images) - right(whole.classifier, whole.bias, images)) < 60


def test_a_pile_or_its_batches_give_as_many_answers_as_images_and_say_how_many_are_adapted():
    images = pile(off=1.2)
    for batch in (0, 64):
        made = answers(images.features, texts=images.texts, batch=batch, **HOW)
        assert len(made.before) == len(made.after) == 300
        assert made.before.tolist() == (images.features @ images.texts).argmax(dim=1).tolist()
        assert made.adapted == 1.0
        assert (made.after == images.labels).sum() > (made.before == images.labels).sum()
    flat = torch.nn.functional.normalize(torch.ones(32, 5) + 0.01 * images.texts, dim=0)
    left = answers(images.features, texts=flat, batch=64, **HOW)
    assert left.adapted == 0.0
    assert torch.equal(left.before, left.after)


def test_no_function_takes_a_label():
    for module in (em_module, center_module, guard, kinds, passes, stream_module, adapted_module, answers_module):
        for _, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__:
                names = {*inspect.signature(function).parameters}
                assert names <= {
                    *("features", "texts", "logit_scale", "kind", "alone", "first", "by", "classes", "shares"),
                    *(
                        "batches",
                        "batch",
                        "earlier",
                        "rounds",
                        "estimate",
                        "stays",
                        "adapted",
                        "settled",
                        "keep",
                        "growth",
                    ),
                }, (module, function)
    assert "labels" not in typing.get_type_hints(Adapted)


# ------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"kind": "sinkhorn"}, ParamsError, "kind is 'sinkhorn'; expected one of em, center"),
        ({"logit_scale": 0.0}, ParamsError, "logit_scale is 0.0; expected a number above 0"),
        ({"logit_scale": math.nan}, ParamsError, "expected a number above 0"),
        ({"texts": torch.ones(3, 5)}, MismatchError, r"class texts have shape \(3, 5\); expected \(32, C\)"),
        ({"texts": torch.ones(32, 1)}, DataError, "two classes or more"),
        ({"features": torch.ones(0, 32)}, DataError, r"features has shape \(0, 32\)"),
    ],
)
def test_what_cannot_be_adapted_is_refused(change, error, said):
    images = pile()
    given = {"features": images.features, "texts": images.texts, "logit_scale": SCALE, "kind": "em", **change}
    with pytest.raises(error, match=said):
        adapt(given.pop("features"), **given)
