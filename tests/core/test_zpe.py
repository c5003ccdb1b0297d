"""ZPE: on a circle by hand, and beside a plain loop over images, texts and classes."""

from __future__ import annotations

import math

import pytest
import torch
from heads_cases import on_a_circle

from wsoup.core.zpe import sureness, zpe_bias, zpe_selection, zpe_weights


def test_what_all_images_are_near_to_is_taken_off():
    """Two images east, at 0 and 20 degrees; a bank whose mean image is of length 0.

    The first text has both classes at 10 degrees, so that it is near to all images and tells none apart; the second has
    them at -40 and 60. Highest cosines: 0.985 twice with the first, 0.766 twice with the second. The mean image is
    0.985 long at 10 degrees: half of its cosine is 0.492 with the first text, 0.317 with the second. That leaves 0.492
    and 0.449.
    """
    images = on_a_circle(0, 20)
    texts = torch.stack([on_a_circle(10, 10), on_a_circle(-40, 60)])
    bias = zpe_bias(texts, mean_image=images.mean(dim=0), mean_of_bank=torch.zeros(2, dtype=torch.float64))
    cosines = [math.cos(math.radians(angle)) for angle in (10, 50)]
    assert bias.flatten().tolist() == pytest.approx(
        [cosines[0] * each / 2 for each in (1.0, 1.0, cosines[1], cosines[1])]
    )
    scores = sureness(torch.einsum("nd,mcd->nmc", images, texts), bias=bias).mean(dim=0)
    assert scores.tolist() == pytest.approx([0.985 - 0.492, 0.766 - 0.317], abs=1e-3)


def test_a_bank_near_to_a_text_counts_against_it():
    texts = torch.stack([on_a_circle(0, 90), on_a_circle(180, 270)])
    nowhere = torch.zeros(2, dtype=torch.float64)
    bias = zpe_bias(texts, mean_image=nowhere, mean_of_bank=on_a_circle(0)[0])
    assert bias.flatten().tolist() == pytest.approx([0.5, 0.0, -0.5, 0.0])


def test_both_biases_are_mean_scores():
    generator = torch.Generator().manual_seed(0)
    images, bank = torch.randn(4, 6, generator=generator), torch.randn(9, 6, generator=generator)
    texts = torch.randn(3, 5, 6, generator=generator)
    bias = zpe_bias(texts, mean_image=images.mean(dim=0), mean_of_bank=bank.mean(dim=0))
    expected = torch.zeros(4, 3)
    for i, image in enumerate(images):
        for j, text in enumerate(texts):
            own = text @ image
            expected[i, j] = max(own - (images @ text.T).mean(dim=0) / 2 - (bank @ text.T).mean(dim=0) / 2)
    torch.testing.assert_close(sureness(torch.einsum("nd,mcd->nmc", images, texts), bias=bias), expected)


def test_weights_are_a_softmax():
    assert zpe_weights(torch.tensor([math.log(3.0), 0.0])).tolist() == pytest.approx([0.75, 0.25])


def test_selection_keeps_what_stands_out():
    """Median 2, deviations 2, 1, 0, 1, 7, their median 1: selected above 2.5, softmax of 3 and 9."""
    weights = zpe_selection(torch.tensor([0.0, 1.0, 2.0, 3.0, 9.0]))
    assert weights.tolist() == pytest.approx([0, 0, 0, 1 / (1 + math.e**6), 1 / (1 + math.e**-6)])


@pytest.mark.parametrize("scores", [[4.0], [4.0, 4.0, 4.0]])
def test_where_nothing_stands_out_all_are_kept(scores):
    weights = zpe_selection(torch.tensor(scores))
    assert weights.tolist() == pytest.approx([1 / len(scores)] * len(scores))
