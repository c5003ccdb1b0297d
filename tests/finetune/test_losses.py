"""Every loss against a value worked out by hand, or a plain loop."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from wsoup.finetune import losses
from wsoup.finetune.params import CrossEntropyLoss


def features(*shape: int, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)), dim=-1)


def test_cross_entropy_by_hand():
    """softmax(0, ln 3) = (1/4, 3/4); targets (1/2, 1/2): -(ln 1/4 + ln 3/4) / 2."""
    logits, targets = torch.tensor([[0.0, math.log(3)]]), torch.tensor([[0.5, 0.5]])
    expected = -(math.log(1 / 4) + math.log(3 / 4)) / 2
    assert float(losses.cross_entropy(logits, targets)) == pytest.approx(expected)


def test_smoothed_targets_by_hand():
    """0.3 spread over the three other classes."""
    targets = losses.smooth_targets(torch.tensor([2]), n_classes=4, label_smoothing=0.3)
    torch.testing.assert_close(targets, torch.tensor([[0.1, 0.1, 0.7, 0.1]]))
    assert losses.smooth_targets(torch.tensor([0]), n_classes=1, label_smoothing=0.3).tolist() == [[1.0]]


def test_without_smoothing_it_equals_torchs_cross_entropy():
    logits, labels = features(5, 7) * 9, torch.tensor([0, 3, 6, 1, 1])
    targets = losses.smooth_targets(labels, n_classes=7, label_smoothing=0.0).double()
    torch.testing.assert_close(losses.cross_entropy(logits, targets), F.cross_entropy(logits, labels))


def test_the_target_is_mixed_with_the_teacher():
    onehot, teacher = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.2, 0.8]])
    targets = losses.taught_targets(onehot, teacher=teacher, weight=0.25)
    torch.testing.assert_close(targets, torch.tensor([[0.8, 0.2]]))


def test_the_adaptive_margin_by_hand():
    """Texts at 0, 60 and 90 degrees, own text the first: 0.1 x (1 - 1, 1 - 1/2, 1 - 0)."""
    texts = torch.tensor([[1.0, 0.0], [0.5, math.sqrt(3) / 2], [0.0, 1.0]], requires_grad=True)
    margins = losses.adaptive_margin(texts, labels=torch.tensor([0]), margin=0.1)
    torch.testing.assert_close(margins, torch.tensor([[0.0, 0.05, 0.1]]))
    assert not margins.requires_grad


class OnACircle:
    """Two classes at 0 and 90 degrees, for student and teacher."""

    members = 1

    def texts(self, member: int) -> torch.Tensor:
        return torch.eye(2, requires_grad=True)

    def teacher_texts(self, member: int) -> torch.Tensor:
        return torch.eye(2)


def test_the_teacher_predicts_at_its_own_scale():
    """Student at 30 degrees and scale 60, teacher at 60 degrees and tau0 = 3, lambda 1/4, label 0."""
    loss = CrossEntropyLoss(**{"kind": "cross_entropy", "lambda": 0.25, "teacher_logit_scale": 3})
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    objective = losses.Objective(OnACircle(), loss=loss, logit_scale=60, parameters=[], scaler=scaler)
    sin, cos = 0.5, math.sqrt(3) / 2
    value, _ = objective.backward(
        torch.tensor([[cos, sin]]), torch.tensor([[sin, cos]]), torch.tensor([0]), iteration=0
    )
    teacher = 1 / (1 + math.exp(3 * (cos - sin)))  # of class 0
    own = -math.log(1 + math.exp(60 * (sin - cos)))  # log p of class 0
    other = own + 60 * (sin - cos)
    expected = -((0.75 + 0.25 * teacher) * own + 0.25 * (1 - teacher) * other)
    assert float(value) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("balance", [1.0, 0.5, 0.0])
def test_the_contrastive_loss_equals_a_plain_loop(balance):
    x, t, total = features(4, 3), features(4, 3, seed=1), 0.0
    for i in range(4):
        to_texts = [float(math.exp(6 * x[i] @ t[j])) for j in range(4)]
        to_images = [float(math.exp(6 * x[j] @ t[i])) for j in range(4)]
        total -= balance * math.log(to_texts[i] / sum(to_texts)) / 4
        total -= (1 - balance) * math.log(to_images[i] / sum(to_images)) / 4
    assert float(losses.contrastive(x, t, logit_scale=6, balance=balance)) == pytest.approx(total)


def test_the_anchor_compares_the_same_class_or_all_pairs():
    """Cosines 1 and 1/2 with itself: 1 - 3/4. Over all pairs 1, sqrt(3)/2, 0 and 1/2."""
    texts = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    initial = torch.tensor([[1.0, 0.0], [math.sqrt(3) / 2, 0.5]])
    assert float(losses.anchor(texts, initial, pairs="own")) == pytest.approx(0.25)
    assert float(losses.anchor(texts, initial, pairs="all")) == pytest.approx(1 - (1.5 + math.sqrt(3) / 2) / 4)


def test_kl_divergence_by_hand():
    """KL((1/2, 1/2) || (1/4, 3/4)) = ln 2 / 2 + ln(2/3) / 2."""
    logits, teacher = torch.tensor([[0.0, math.log(3)]]), torch.tensor([[0.5, 0.5]])
    assert float(losses.kl_divergence(logits, teacher)) == pytest.approx((math.log(2) + math.log(2 / 3)) / 2)


def test_the_conflicting_component_of_a_gradient_is_removed():
    """(1, -1) against (0, 1) keeps (1, 0); (1, 1) does not conflict; a zero gradient conflicts with nothing."""
    task = [torch.tensor([1.0, -1.0]), torch.tensor([1.0, 1.0]), torch.tensor([1.0, -1.0])]
    general = [torch.tensor([0.0, 2.0]), torch.tensor([0.0, 2.0]), torch.zeros(2)]
    projected = losses.without_conflict(task, general=general, weight=1.0)
    assert [g.tolist() for g in projected] == [[1.0, 0.0], [1.0, 1.0], [1.0, -1.0]]
    assert losses.without_conflict(task[:1], general=general[:1], weight=0.5)[0].tolist() == [1.0, -0.5]


def test_the_gaussian_bound_equals_a_plain_loop():
    x, texts = features(3, 4), features(3, 5, 4, seed=1)  # B, D and B, S, D
    mean, scale, count = texts.mean(dim=1), 7.0, 5 + 1
    total = 0.0
    for b in range(3):
        logits = []
        for k in range(3):
            variance = 0.0
            for d in range(4):
                own, other = texts[b, :, d] - mean[b, d], texts[k, :, d] - mean[k, d]
                variance += float(x[b, d] ** 2 * ((own - other) ** 2).sum() / count)
            logits.append(float(scale * x[b] @ F.normalize(mean[k], dim=0)) + scale**2 / 2 * variance)
        total += math.log(sum(math.exp(v) for v in logits)) - logits[b]
    assert float(losses.gaussian_bound(x, texts, logit_scale=scale)) == pytest.approx(total / 3)


def test_the_gaussian_bound_of_one_prompt_equals_the_contrastive_loss():
    x, texts = features(3, 4), features(3, 1, 4, seed=1)
    expected = losses.contrastive(x, texts[:, 0], logit_scale=7, balance=1.0)
    torch.testing.assert_close(losses.gaussian_bound(x, texts, logit_scale=7), expected)


def test_prompt_overlap_by_hand():
    """Two prompts lie on opposite sides of their mean: |cosine| 1. Four at right angles: two pairs of six opposite."""
    two = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    four = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]])
    assert float(losses.prompt_overlap(two)) == pytest.approx(1.0)
    assert float(losses.prompt_overlap(four)) == pytest.approx(1 / 3)
    assert float(losses.prompt_overlap(two[:, :1])) == 0.0


def test_the_members_divergence_equals_a_plain_loop():
    p = (features(3, 2, 4) * 5).softmax(dim=-1)  # M, B, C
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    total = sum(float((p[i, b] * (p[i, b] / p[j, b]).log()).sum()) for i, j in pairs for b in range(2))
    assert losses.members_divergence(p) == pytest.approx(total / (len(pairs) * 2))
    assert losses.members_divergence(p[:1]) == 0.0
