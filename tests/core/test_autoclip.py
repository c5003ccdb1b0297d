"""AutoCLIP: on a circle by hand, then beside a plain loop with autograd."""

from __future__ import annotations

import math

import pytest
import torch
from heads_cases import on_a_circle

from wsoup.core.autoclip import BETA, autoclip_scores, autoclip_weights


def entropy(weights: torch.Tensor) -> torch.Tensor:
    return -(weights * weights.log()).sum(dim=-1)


def test_two_texts_on_a_circle():
    """An image at 40 degrees. The first text has the classes at 40 and 100 degrees, the second at 110 and 50.

    Its scores are 1.00 and 0.50 with the first, 0.34 and 0.98 with the second, which is further away on the whole. The
    means, 0.67 and 0.74, are for the second class. An entropy of 0.85 bits is that of weights 0.724 and 0.276, which
    give 0.82 and 0.63.
    """
    texts = torch.stack([on_a_circle(40, 100), on_a_circle(110, 50)])  # (M, C, D)
    scores = torch.einsum("nd,mcd->nmc", on_a_circle(40), texts)
    assert scores.mean(dim=1).argmax(dim=1).tolist() == [1]
    weights = autoclip_weights(scores)
    assert weights[0].tolist() == pytest.approx([0.724, 0.276], abs=1e-3)
    assert autoclip_scores(scores)[0].tolist() == pytest.approx([0.818, 0.634], abs=1e-3)
    # The other text is nearer to an image at 80 degrees.
    other = torch.einsum("nd,mcd->nmc", on_a_circle(80), texts)
    assert autoclip_weights(other)[0].tolist() == pytest.approx([0.276, 0.724], abs=1e-3)


def test_weights_are_a_step_of_gradient_ascent():
    """Along the gradient of logsumexp in the logits of the weights, as long as the entropy says."""
    scores = torch.randn(5, 7, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 10
    for weights, of_image in zip(autoclip_weights(scores), scores, strict=True):
        logits = torch.zeros(7, dtype=torch.float64, requires_grad=True)
        torch.logsumexp(logits.softmax(dim=0) @ of_image, dim=0).backward()
        step = weights.log() - weights.log().mean()
        torch.testing.assert_close(step / step.norm(), logits.grad / logits.grad.norm())
        assert entropy(weights).item() == pytest.approx(BETA * math.log(7), abs=1e-5)


def test_one_text_and_equal_texts_keep_the_mean():
    one = torch.tensor([[[0.2, 0.3]]])
    assert autoclip_weights(one).tolist() == [[1.0]]
    equal = one.expand(1, 3, 2)
    torch.testing.assert_close(autoclip_weights(equal), torch.full((1, 3), 1 / 3))
    torch.testing.assert_close(autoclip_scores(equal), one[:, 0])


def test_texts_that_share_the_largest_gradient_share_the_weight():
    """Seven of eight have an entropy of 0.94 log 8, which is never 0.85."""
    scores = torch.tensor([[[0.5, 0.5]] * 7 + [[0.1, 0.1]]])
    assert autoclip_weights(scores)[0].tolist() == pytest.approx([1 / 7] * 7 + [0], abs=1e-6)


def test_one_class_and_no_image():
    assert autoclip_scores(torch.tensor([[[0.2], [0.4]]])).argmax(dim=1).tolist() == [0]
    assert autoclip_scores(torch.zeros(0, 3, 2)).shape == (0, 2)


def test_an_image_is_alone():
    scores = torch.rand(6, 5, 3, generator=torch.Generator().manual_seed(1))
    each = torch.cat([autoclip_scores(scores[i : i + 1]) for i in range(6)])
    torch.testing.assert_close(autoclip_scores(scores), each)
