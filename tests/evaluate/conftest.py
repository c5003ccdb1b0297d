"""The text side of a tiny encoder, and three datasets of random images: a source, its shift, and other classes."""

from __future__ import annotations

import pytest
import torch
from evaluate_cases import NAMES, images

from wsoup.texts.encoder import PromptEncoder


@pytest.fixture(scope="module")
def texts(tiny_encoder):
    return PromptEncoder(tiny_encoder.model, tiny_encoder.tokenizer, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def tests():
    return [
        images("photo", role="source", names=NAMES, n=40, width=16),
        images("sketch", role="dg", names=NAMES[:2], n=30, width=16),
        images("pets", role="xd", names=["dog", "cat"], n=20, width=16, template="a photo of a {}, a type of pet."),
    ]


@pytest.fixture
def photo(tests):
    return tests[0]
