"""Steps that are those of torch's optimizers to the bit, without their classes and the compiler that these import."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from wsoup.finetune.optimizer import SGD, Adam


def parameters(*sizes: int) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(size, generator=generator)) for size in sizes]


def test_two_steps_by_hand():
    """One weight 1, gradients 2 and 1, rate 0.5, momentum 0.5: 1 - 0.5 x 2 = 0, then 0 - 0.5 x (0.5 x 2 + 1) = -1."""
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    ours = SGD([{"params": [weight], "lr": 0.5}], momentum=0.5, weight_decay=0.0)
    for gradient, after in ((2.0, 0.0), (1.0, -1.0)):
        weight.grad = torch.tensor([gradient])
        ours.step()
        assert weight.item() == after


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_are_those_of_torch_to_the_bit(momentum):
    """Two groups with rates of their own; the last parameter has a gradient now and then."""
    ours, theirs = parameters(1000, 7, 33), parameters(1000, 7, 33)
    step = SGD(
        [{"params": ours[:1], "lr": 0.1}, {"params": ours[1:], "lr": 0.03}],
        momentum=momentum,
        weight_decay=1e-5,
    ).step
    groups = [{"params": theirs[:1]}, {"params": theirs[1:], "lr": 0.03}]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=momentum, weight_decay=1e-5)
    for iteration in range(5):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = b.grad = torch.sin(b.detach() * 7 + iteration)
        if iteration % 2 == 0:
            ours[2].grad = theirs[2].grad = None
        step()
        optimizer.step()
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True)), iteration


def test_a_step_of_adam_by_hand():
    """The first step is the rate times g / (|g| + epsilon), whatever the gradient: 1 - 0.5 x 2 / (2 + 2) = 0.75."""
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    ours = Adam([{"params": [weight], "lr": 0.5}], weight_decay=0.0, epsilon=2.0, decoupled=False)
    weight.grad = torch.tensor([2.0])
    ours.step()
    assert weight.item() == 0.75


@pytest.mark.parametrize(("decoupled", "theirs"), [(False, torch.optim.Adam), (True, torch.optim.AdamW)])
def test_steps_of_adam_are_those_of_torch_to_the_bit(decoupled, theirs):
    """Two groups, rates that change, and a parameter with a gradient now and then."""
    ours, same = parameters(1000, 7, 33), parameters(1000, 7, 33)
    groups = [{"params": ours[:1], "lr": 0.1}, {"params": ours[1:], "lr": 0.03}]
    optimizer = Adam(groups, weight_decay=0.01, epsilon=1e-4, decoupled=decoupled)
    of_torch = theirs([{"params": same[:1]}, {"params": same[1:], "lr": 0.03}], lr=0.1, weight_decay=0.01, eps=1e-4)
    for iteration in range(5):
        for a, b in zip(ours, same, strict=True):
            a.grad = b.grad = torch.sin(b.detach() * 7 + iteration)
        if iteration % 2 == 0:
            ours[2].grad = same[2].grad = None
        optimizer.rate_factor = 0.5**iteration
        for group, rate in zip(of_torch.param_groups, (0.1, 0.03), strict=True):
            group["lr"] = rate * 0.5**iteration
        optimizer.step()
        of_torch.step()
        assert all(torch.equal(a, b) for a, b in zip(ours, same, strict=True)), iteration


def test_an_optimizer_that_forgets_steps_as_at_first():
    first, again = parameters(5), parameters(5)
    steps = {}
    for name, [weight] in {"first": first, "again": again}.items():
        steps[name] = Adam([{"params": [weight], "lr": 0.1}], weight_decay=0.0, epsilon=1e-8, decoupled=False)
        weight.grad = torch.ones(5)
    steps["again"].step()
    again[0].data.copy_(first[0].data)
    steps["again"].forget()
    for step in steps.values():
        step.step()
    assert torch.equal(first[0], again[0])


def test_stepping_twice_is_standing_in_the_optimizer_twice():
    """Against torch's own SGD with the parameter listed twice, one after the other."""
    ours, theirs = (torch.nn.Parameter(torch.tensor([1.0, -2.0])) for _ in range(2))
    twice = SGD([{"params": [ours], "lr": 0.1}], momentum=0.9, weight_decay=0.01, steps=2)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        listed = torch.optim.SGD([theirs, theirs], foreach=False, lr=0.1, momentum=0.9, weight_decay=0.01)
    for step in range(4):
        ours.grad = theirs.grad = torch.tensor([1.0, 0.5]) * (step + 1)
        twice.step()
        listed.step()
        assert torch.equal(ours, theirs), step


def test_a_loss_scaler_takes_its_scale_off_and_leaves_out_a_step_that_is_not_finite():
    """float16 training scales its losses; what overflowed moves nothing, and the scale is halved."""
    ours, theirs = parameters(5), parameters(5)
    steps = {
        "ours": (ours, SGD([{"params": ours, "lr": 0.1}], momentum=0.9, weight_decay=1e-5)),
        "torch": (theirs, torch.optim.SGD(theirs, lr=0.1, momentum=0.9, weight_decay=1e-5)),
    }
    scalers = {name: torch.amp.GradScaler("cpu", init_scale=8.0) for name in steps}
    for factor in (1.0, float("inf"), 0.5):
        before = ours[0].detach().clone()
        for name, ([weights], optimizer) in steps.items():
            weights.grad = None
            scalers[name].scale((weights**2).sum() * factor).backward()
            scalers[name].step(optimizer)
            scalers[name].update()
        assert torch.equal(ours[0], theirs[0])
        assert torch.equal(ours[0], before) == (factor == float("inf"))
    assert scalers["ours"].get_scale() == scalers["torch"].get_scale() == 4.0


def test_no_step_imports_the_compiler():
    code = """
import sys, torch
from wsoup.finetune.optimizer import SGD, Adam
weight = torch.nn.Parameter(torch.ones(3))
weight.grad = torch.ones(3)
SGD([{"params": [weight], "lr": 0.1}], momentum=0.9, weight_decay=0.1).step()
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
