"""How many pixels a decoder must give: twice what the first step resizes to, or all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from torchvision import transforms

from wsoup.images.pixels import side_that_is_enough


def test_twice_the_size_of_the_first_resize(tiny_encoder):
    size = tiny_encoder.preprocessing["size"]
    assert side_that_is_enough(tiny_encoder) == 2 * (size if isinstance(size, int) else max(size))
    squash = transforms.Compose([transforms.Resize((100, 60)), transforms.ToTensor()])
    assert side_that_is_enough(replace(tiny_encoder, preprocess=squash)) == 200


@pytest.mark.parametrize("first", [transforms.CenterCrop(40), transforms.RandomResizedCrop(40)])
def test_another_first_step_gets_the_whole_picture(tiny_encoder, first):
    preprocess = transforms.Compose([first, transforms.ToTensor()])
    assert side_that_is_enough(replace(tiny_encoder, preprocess=preprocess)) is None
    assert side_that_is_enough(replace(tiny_encoder, preprocess=transforms.ToTensor())) is None


def test_the_reference_and_the_papers_loader_get_the_whole_picture(tiny_encoder):
    reference = replace(tiny_encoder, id={**tiny_encoder.id, "precision": "reference"})
    assert side_that_is_enough(reference) is None
    stored = replace(tiny_encoder, preprocessing={**tiny_encoder.preprocessing, "decoding": "stored"})
    assert side_that_is_enough(stored) is None
