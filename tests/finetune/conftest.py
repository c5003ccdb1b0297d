"""Fixtures for finetuning."""

from __future__ import annotations

import pytest
from finetune_cases import draw_colours

from wsoup.finetune.training_set import TrainingSet


@pytest.fixture(scope="session")
def colours(tmp_path_factory: pytest.TempPathFactory) -> TrainingSet:
    """Four colours with three training images each, and a soup of three members."""
    return draw_colours(tmp_path_factory.mktemp("colours"))
