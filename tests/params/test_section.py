"""What a section means: its values, without optional keys that have their default."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import Field

from wsoup.base.errors import ParamsError
from wsoup.finetune.params import FinetuneParams
from wsoup.params.section import Section, parse


class Crop(Section):
    written = frozenset({"flip"})
    share: float
    flip: bool = False
    turn: float = 0.0


class Training(Section):
    kind: Literal["sgd"]
    rate: float
    weight: float | None = Field(default=None, alias="lambda")
    warmup: int = 0
    sizes: tuple[int, ...] = (1, 2)
    crop: Crop = Crop(share=0.5)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({}, {}),
        ({"warmup": 0, "lambda": None, "sizes": [1, 2], "crop": {"share": 0.5}}, {}),
        ({"warmup": 3}, {"warmup": 3}),
        ({"lambda": 0.25}, {"lambda": 0.25}),
        ({"sizes": [1]}, {"sizes": [1]}),
        ({"crop": {"share": 0.7}}, {"crop": {"share": 0.7, "flip": False}}),
        ({"crop": {"share": 0.5, "flip": True, "turn": 9}}, {"crop": {"share": 0.5, "flip": True, "turn": 9}}),
    ],
)
def test_a_default_is_left_out_unless_it_was_always_written(given, meant):
    """Whether params.yaml states it or not; in sections inside, too."""
    section = Training.model_validate({"kind": "sgd", "rate": 0.1, **given})
    assert section.meant(mode="json") == {"kind": "sgd", "rate": 0.1, **meant}


def test_fields_are_excluded_by_name():
    section = Training.model_validate({"kind": "sgd", "rate": 0.1, "warmup": 3})
    assert section.meant(exclude={"rate", "warmup"}) == {"kind": "sgd"}


def test_methods_need_the_keys_that_dvc_yaml_lists_and_no_other():
    """A key that is added with a default is not asked for, or no params.yaml of before would be valid."""
    parse(FinetuneParams, {"methods": {}}, origin="params.yaml")
    method = {
        "tune": {"kind": "prompt", "tokens": 3},
        "loss": {"kind": "cross_entropy"},
        "soup": "class_name",
        "learning_rate": 1.0,
        "prompt_factor": 1.0,
    }
    listed = ["iterations", "batch_size", "batches", "momentum", "weight_decay", "logit_scale", "ema", "augment"]
    with pytest.raises(ParamsError, match=f"methods needs {', '.join(listed)}, log_every beside it"):
        parse(FinetuneParams, {"methods": {"coop": method}}, origin="params.yaml")

    class Longer(FinetuneParams):
        added_later: int = 0

    defaults = parse(FinetuneParams, {"methods": {}}, origin="params.yaml").meant(exclude={"methods"})
    section = parse(Longer, {**defaults, "methods": {"coop": method}}, origin="params.yaml")
    assert section.meant(exclude={"methods"}) == defaults
