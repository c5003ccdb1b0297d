"""Every loss against a value worked out by hand, or a plain loop."""

from __future__ import annotations

import math

import pytest
import torch
from pydantic import TypeAdapter
from torch.nn import functional as F

from wsoup.finetune import losses
from wsoup.finetune.loss_params import LossParams, ProdaLoss, ProgradLoss, ProlipLoss, PromptsrcLoss
from wsoup.finetune.objective import Objective


def features(*shape: int, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)), dim=-1)


def test_smoothed_targets_by_hand():
    """0.3 spread over the three other classes."""
    targets = losses.smooth_targets(torch.tensor([2]), n_classes=4, label_smoothing=0.3)
    torch.testing.assert_close(targets, torch.tensor([[0.1, 0.1, 0.7, 0.1]]))
    assert losses.smooth_targets(torch.tensor([0]), n_classes=1, label_smoothing=0.3).tolist() == [[1.0]]


def test_the_adaptive_margin_by_hand():
    """Texts at 0, 60 and 90 degrees, own text the first: 0.1 x (1 - 1, 1 - 1/2, 1 - 0)."""
    texts = torch.tensor([[1.0, 0.0], [0.5, math.sqrt(3) / 2], [0.0, 1.0]], requires_grad=True)
    margins = losses.adaptive_margin(texts, labels=torch.tensor([0]), margin=0.1)
    torch.testing.assert_close(margins, torch.tensor([[0.0, 0.05, 0.1]]))
    assert not margins.requires_grad


class Fixed:
    """Passes of M members with three classes: fixed features (M, 3, D) of the student and of the teacher."""

    def __init__(self, student: torch.Tensor, teacher: torch.Tensor) -> None:
        self.student, self.teacher = torch.nn.Parameter(student), teacher
        self.members = len(student)

    def texts(self, member: int, *, classes: torch.Tensor | None = None) -> torch.Tensor:
        return self.student[member] if classes is None else self.student[member][classes]

    def teacher_texts(self, member: int) -> torch.Tensor:
        return self.teacher[member]

    def template_texts(self, count: int) -> torch.Tensor:
        return self.teacher[:count].mean(dim=0)


def backward(loss, *, iteration: int, student=None, teacher=None, x=None, y=(2, 0)):
    """Loss and logits of an `Objective` at logit scale 6, and the passes, whose texts then have gradients."""
    passes = Fixed(features(2, 3, 4) if student is None else student, features(2, 3, 4, seed=1))
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    objective = Objective(passes, loss=loss, logit_scale=6, parameters=[passes.student], scaler=scaler)
    images = features(len(y), 4, seed=2) if x is None else x
    return *objective.backward(images, teacher, torch.tensor(y), text_index=iteration), passes


def soft_targets(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return -(targets.double() * logits.log_softmax(dim=1)).sum(dim=1).mean()


TAUGHT = {"lambda": 0.25, "teacher_logit_scale": 3}
OBJECTIVES = {  # images x (2, D), texts t (3, D) of the student, t0 of the teacher, one-hot targets
    "smoothing": (
        {"kind": "cross_entropy", "label_smoothing": 0.3},
        lambda x, t, t0, hot: soft_targets(6 * x @ t.T, torch.where(hot > 0, 0.7, 0.15)),
    ),
    "margin": (
        {"kind": "cross_entropy", "margin": 0.5},
        lambda x, t, t0, hot: soft_targets(6 * (x @ t.T + 0.5 * (1 - (hot @ t) @ t.T)), hot),
    ),
    "teacher at its own scale": (
        {"kind": "cross_entropy", **TAUGHT},
        lambda x, t, t0, hot: soft_targets(6 * x @ t.T, 0.75 * hot + 0.25 * (3 * x.flip(1) @ t0.T).softmax(1)),
    ),
    "kgcoop": (
        {"kind": "kgcoop", "weight": 8},
        lambda x, t, t0, hot: soft_targets(6 * x @ t.T, hot) + 8 * (1 - (t @ t0.T).mean()),
    ),
}


@pytest.mark.parametrize(
    ("section", "needs"),
    [
        ({"kind": "cross_entropy"}, False),
        ({"kind": "cross_entropy", "lambda": 0, "teacher_logit_scale": 3}, False),
        ({"kind": "cross_entropy", **TAUGHT}, True),
        ({"kind": "kgcoop", "weight": 8}, False),
        ({"kind": "prograd", "weight": 1}, True),
        ({"kind": "proda", "per_step": 2, "orthogonality": 0.1}, False),
        ({"kind": "prolip", "weight": 0.1}, False),
        ({"kind": "promptsrc", "image_weight": 10, "text_weight": 25, "templates": 2}, True),
    ],
)
def test_the_pretrained_images_are_computed_only_for_losses_that_use_them(section, needs):
    loss = TypeAdapter(LossParams).validate_python(section)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    objective = Objective(Fixed(*features(2, 2, 3, 4)), loss=loss, logit_scale=6, parameters=[], scaler=scaler)
    assert objective.needs_teacher is needs
    assert objective.in_batch is (section["kind"] in ("prograd", "proda"))


@pytest.mark.parametrize("iteration", [0, 3])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_is_its_formula_for_the_iterations_member(name, iteration):
    section, formula = OBJECTIVES[name]
    x, y = features(2, 4, seed=2), torch.tensor([2, 0])
    loss = TypeAdapter(LossParams).validate_python(section)
    value, logits, passes = backward(loss, iteration=iteration, teacher=x.flip(1))
    t, t0 = passes.student[iteration % 2].detach(), passes.teacher[iteration % 2]
    assert float(value) == pytest.approx(float(formula(x, t, t0, F.one_hot(y, 3).double())))
    torch.testing.assert_close(logits, 6 * x @ t.T)
    assert not passes.student.grad[1 - iteration % 2].any()


def test_the_squared_distance_by_hand():
    """(1, 2; 3, 4) from (0, 0; 3, 2): 1 + 4 + 0 + 4 = 9, and 4 from 6: 4; the gradient is twice the difference."""
    weights = [torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), torch.tensor([4.0], requires_grad=True)]
    start = [torch.tensor([[0.0, 0.0], [3.0, 2.0]]), torch.tensor([6.0])]
    distance = losses.squared_distance(weights, start=start)
    distance.backward()
    assert distance.item() == 13
    assert weights[0].grad.tolist() == [[2, 4], [0, 4]]
    assert weights[1].grad.tolist() == [-4]


def test_prolip_adds_the_squared_distance_of_its_parameters_from_where_they_began():
    """The image projection moves by 2 in one entry: 0.25 x 2^2 = 1 more, and a gradient of 0.25 x 2 x 2 = 1 there."""
    passes = Fixed(features(1, 3, 2), features(1, 3, 2, seed=1))
    passes.student.requires_grad_(False)
    pooled = features(2, 4, seed=2)
    projection = torch.nn.Parameter(features(4, 2, seed=3))
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    of_objective = {"logit_scale": 6, "parameters": [projection], "scaler": scaler}
    objective = Objective(passes, loss=ProlipLoss(kind="prolip", weight=0.25), **of_objective)
    with torch.no_grad():
        projection[1, 0] += 2
    value, _ = objective.backward(pooled @ projection, None, torch.tensor([2, 0]), text_index=0)
    logits = 6 * pooled @ projection @ passes.student[0].T
    task = F.cross_entropy(logits, torch.tensor([2, 0]))
    (without,) = torch.autograd.grad(task, [projection])
    assert float(value) == pytest.approx(task.item() + 1)
    torch.testing.assert_close(projection.grad - without, torch.tensor([[0.0, 0], [1, 0], [0, 0], [0, 0]]).double())


def test_the_absolute_distance_by_hand():
    """(1, 0; 0, 1) and (0, 0; 0.5, 1): 1 + 0 + 0.5 + 0 over four numbers; the gradient is the sign over four."""
    features = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    distance = losses.absolute_distance(features, torch.tensor([[0.0, 0.0], [0.5, 1.0]]))
    distance.backward()
    assert distance.item() == 0.375
    assert features.grad.tolist() == [[0.25, 0], [-0.25, 0]]


def test_the_divergence_of_logits_by_hand():
    """Zero-shot 3/4 and 1/4 against 1/2 and 1/2: 3/4 log 3/2 + 1/4 log 1/2 = 0.130812, over two logits; once equal."""
    zero_shot = torch.tensor([[math.log(3), 0.0], [1.0, 1.0]])
    divergence = losses.divergence_of_logits(torch.tensor([[2.0, 2.0], [5.0, 5.0]]), zero_shot=zero_shot)
    assert divergence.item() == pytest.approx(0.130812 / 4)
    assert losses.divergence_of_logits(zero_shot, zero_shot=zero_shot).item() == pytest.approx(0)


def test_promptsrc_is_cross_entropy_and_three_distances_from_the_pretrained_model():
    """Images by 10, texts by 25 from the mean of two templates, and the divergence of logits with those texts."""
    loss = PromptsrcLoss(kind="promptsrc", image_weight=10, text_weight=25, templates=2)
    x, frozen_x, y = features(2, 4, seed=2), features(2, 4, seed=11), torch.tensor([2, 0])
    value, logits, passes = backward(loss, iteration=1, teacher=frozen_x)
    t, frozen_t = passes.student.detach()[1], (passes.teacher[0] + passes.teacher[1]) / 2
    p, q = (6 * frozen_x @ frozen_t.T).softmax(dim=1), (6 * x @ t.T).softmax(dim=1)
    expected = -(q[[0, 1], y].log()).mean() + 10 * (x - frozen_x).abs().mean() + 25 * (t - frozen_t).abs().mean()
    expected = expected + (p * (p / q).log()).sum() / 6
    assert float(value) == pytest.approx(float(expected))
    torch.testing.assert_close(logits, 6 * x @ t.T)
    assert not passes.student.grad[0].any()


def test_proda_takes_the_next_descriptors_in_turn():
    """Two of five in each step, the third step's being the last and the first; the overlap of prompts is added."""
    loss = ProdaLoss(kind="proda", per_step=2, orthogonality=0.5)
    value, logits, passes = backward(loss, iteration=2, student=features(5, 3, 4))
    x, texts = features(2, 4, seed=2), passes.student.detach()[[4, 0]][:, [2, 0]].transpose(0, 1)
    expected = losses.gaussian_bound(x, texts, logit_scale=6) + 0.5 * losses.prompt_overlap(texts)
    assert float(value) == pytest.approx(float(expected))
    torch.testing.assert_close(logits, 6 * x @ texts.mean(dim=1).T)


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_prograd_descends_the_task_without_its_conflict_with_the_zero_shot_prediction(weight):
    loss, x, teacher = ProgradLoss(kind="prograd", weight=weight), features(2, 4, seed=2), features(2, 4, seed=11)
    value, _, passes = backward(loss, iteration=1, teacher=teacher)
    t = passes.student.detach()[1, [2, 0]].requires_grad_()
    task = F.cross_entropy(6 * x @ t.T, torch.arange(2))
    zero_shot = (6 * teacher @ passes.teacher[1, [2, 0]].T).softmax(dim=1)
    general = (zero_shot * (zero_shot.log() - (6 * x @ t.T).log_softmax(dim=1))).sum(dim=1).mean()
    gradients = [torch.autograd.grad(part, [t], retain_graph=True) for part in (task, general)]
    expected = losses.without_conflict(gradients[0], general=gradients[1], weight=weight)[0]
    assert float(value) == pytest.approx(task.item())
    torch.testing.assert_close(passes.student.grad[1, [2, 0]], expected)
    assert not torch.equal(expected, gradients[0][0]), "these conflict"


def test_the_conflicting_component_of_a_gradient_is_removed():
    """(1, -1) against (0, 1) keeps (1, 0); (1, 1) does not conflict; a zero gradient conflicts with nothing."""
    task = [torch.tensor([1.0, -1.0]), torch.tensor([1.0, 1.0]), torch.tensor([1.0, -1.0])]
    general = [torch.tensor([0.0, 2.0]), torch.tensor([0.0, 2.0]), torch.zeros(2)]
    projected = losses.without_conflict(task, general=general, weight=1.0)
    assert [g.tolist() for g in projected] == [[1.0, 0.0], [1.0, 1.0], [1.0, -1.0]]
    assert losses.without_conflict(task[:1], general=general[:1], weight=0.5)[0].tolist() == [1.0, -0.5]
    agreeing, little = [torch.tensor([1.0, 0.1])], [torch.tensor([0.0, 0.2])]
    torch.testing.assert_close(losses.without_conflict(agreeing, general=little, weight=1.0), agreeing)


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
    rare = torch.tensor([[[1 - 1e-6, 1e-6]], [[0.5, 0.5]]])
    from_sure = math.log(2)
    from_unsure = math.log(0.5) - math.log(1e-6) / 2
    assert losses.members_divergence(rare) == pytest.approx((from_sure + from_unsure) / 2, abs=1e-4)
