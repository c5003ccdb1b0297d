"""Checkpoints as trainers write them: loaded, or one line that says what to save."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import open_clip
import pytest
import torch
from safetensors.torch import load_file, save_file

import wsoup
from wsoup.base.errors import ModelError
from wsoup.core.member import Member
from wsoup.params.inputs import EncoderParams
from wsoup.towers.encoder import load_encoder

State = dict[str, Any]
OPTIMIZER = {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 0.1}]}


def prefixed(state: State, prefix: str) -> State:
    return {prefix + name: tensor for name, tensor in state.items()}


def partly_compiled(state: State) -> State:
    return {name.replace("visual.", "visual._orig_mod."): tensor for name, tensor in state.items()}


TAKEN: dict[str, Callable[[State], object]] = {
    "bare": lambda state: state,
    "state_dict": lambda state: {"epoch": 3, "state_dict": state, "optimizer": OPTIMIZER},
    "model": lambda state: {"model": state, "optimizer": OPTIMIZER, "epoch": 3},
    "model_state_dict": lambda state: {"epoch": 3, "model_state_dict": state, "optimizer_state_dict": OPTIMIZER},
    "module": lambda state: {"module": state, "global_steps": 3},
    "net": lambda state: {"net": state},
    "a name of one's own": lambda state: {"my_clip": state, "epoch": 3},
    "two levels": lambda state: {"checkpoint": 1, "model": {"state_dict": state}},
    "ema beside": lambda state: {"ema": state, "model": state},
    "module.": lambda state: prefixed(state, "module."),
    "_orig_mod.": lambda state: prefixed(state, "_orig_mod."),
    "module._orig_mod.": lambda state: prefixed(state, "module._orig_mod."),
    "_orig_mod.module.": lambda state: prefixed(state, "_orig_mod.module."),
    "model.": lambda state: {"state_dict": prefixed(state, "model."), "pytorch-lightning_version": "2"},
    "state_dict of module.": lambda state: {"epoch": 1, "state_dict": prefixed(state, "module.")},
    "a compiled tower": partly_compiled,
    "a bias of logits": lambda state: {**state, "logit_bias": torch.tensor(-10.0)},
    "all of it": lambda state: {"model": prefixed({**state, "logit_bias": torch.zeros(1)}, "module._orig_mod.")},
    "a scale as a vector": lambda state: {**state, "logit_scale": state["logit_scale"].reshape(1)},
}


@pytest.mark.parametrize("kind", TAKEN)
def test_what_trainers_wrap_around_weights_is_taken_off(
    tmp_path: Path, tiny_encoder, tiny_encoder_files: dict[str, str], kind: str
) -> None:
    """The same features and the same identity."""
    state = load_file(tiny_encoder_files["pretrained"])
    file = tmp_path / "tiny.pt"
    torch.save(TAKEN[kind](state), file)
    encoder = load_encoder(EncoderParams(**{**tiny_encoder_files, "pretrained": str(file)}), device=torch.device("cpu"))
    assert encoder.id["weights"] == tiny_encoder.id["weights"]
    assert torch.equal(encoder.encode_texts(["a cat"]), tiny_encoder.encode_texts(["a cat"]))


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod."])
def test_safetensors_may_have_prefixes_too(
    tmp_path: Path, tiny_encoder, tiny_encoder_files: dict[str, str], prefix: str
) -> None:
    save_file(prefixed(load_file(tiny_encoder_files["pretrained"]), prefix), tmp_path / "tiny.safetensors")
    files = {**tiny_encoder_files, "pretrained": str(tmp_path / "tiny.safetensors")}
    assert load_encoder(EncoderParams(**files), device=torch.device("cpu")).id["weights"] == tiny_encoder.id["weights"]


def without(state: State, *names: str) -> State:
    return {name: tensor for name, tensor in state.items() if name not in names}


REFUSED: dict[str, tuple[Callable[[State], object], str]] = {
    "two models": (
        lambda state: {"teacher": state, "student": state},
        "holds weights under 'teacher', 'student'; save those of the CLIP model alone",
    ),
    "one tower": (
        lambda state: {name: tensor for name, tensor in state.items() if not name.startswith("visual.")},
        "of the model's tensors, such as 'visual.class_embedding'",
    ),
    "one missing": (
        lambda state: without(state, "visual.proj"),
        "it lacks 1 of the model's tensors, such as 'visual.proj'",
    ),
    "one more": (lambda state: {**state, "more": torch.zeros(2)}, "it has 1 others, such as 'more'"),
    "another prefix": (lambda state: prefixed(state, "clip."), "begin with 'clip.'; save these alone and without it"),
    "a prefix beside a head": (
        lambda state: {**prefixed(state, "backbone.clip_model."), "head.weight": torch.zeros(2)},
        "begin with 'backbone.clip_model.'; save",
    ),
    "other names": (lambda state: {f"{name}_": tensor for name, tensor in state.items()}, "it lacks "),
    "another shape": (
        lambda state: {**state, "text_projection": torch.zeros(3, 3)},
        "it has text_projection with shape [3, 3], where the model has [",
    ),
    "an optimizer alone": (lambda state: {"optimizer": OPTIMIZER}, "tiny.pt"),
    "nothing": (lambda state: {}, "tiny.pt"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_weights_of_something_else_are_one_line(tmp_path: Path, tiny_encoder_files: dict[str, str], kind: str) -> None:
    make, message = REFUSED[kind]
    file = tmp_path / "tiny.pt"
    torch.save(make(load_file(tiny_encoder_files["pretrained"])), file)
    with pytest.raises(ModelError) as caught:
        load_encoder(EncoderParams(**{**tiny_encoder_files, "pretrained": str(file)}), device=torch.device("cpu"))
    text = str(caught.value)
    assert message in text
    assert text.isprintable()
    assert len(text) < 500 + len(str(file))


def test_open_clip_is_left_as_it_was(tiny_encoder_files: dict[str, str], tmp_path: Path) -> None:
    before = open_clip.factory.convert_state_dict
    load_encoder(EncoderParams(**tiny_encoder_files), device=torch.device("cpu"))
    torch.save({}, tmp_path / "x.pt")
    with pytest.raises(ModelError):
        load_encoder(
            EncoderParams(**{**tiny_encoder_files, "pretrained": str(tmp_path / "x.pt")}), device=torch.device("cpu")
        )
    assert open_clip.factory.convert_state_dict is before


# ----------------------------------------------------------------------------------------------------- models in memory


class Lightning(torch.nn.Module):
    """A trainer's module around the model."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model


def on_meta(model: torch.nn.Module) -> torch.nn.Module:
    return copy.deepcopy(model).to("meta")


def one_tower_on_meta(model: torch.nn.Module) -> torch.nn.Module:
    model = copy.deepcopy(model)
    model.visual.to("meta")
    return model


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (torch.nn.DataParallel, "model is DataParallel, which wraps the model that has encode_.*; pass model.module"),
        (Lightning, "model is Lightning, which wraps the model that has encode_.*; pass model.model"),
        (on_meta, "model has no values: positional_embedding is on the meta device; load its weights first"),
        (one_tower_on_meta, "model has no values: visual.class_embedding is on the meta device"),
    ],
)
@pytest.mark.parametrize("what", ["classifier", "images", "head", "soup"])
def test_a_model_that_is_wrapped_or_empty(tiny_encoder, wrap, message: str, what: str) -> None:
    model = wrap(tiny_encoder.model)
    how = {"model": model, "tokenizer": tiny_encoder.tokenizer, "class_names": ["a", "b"]}
    generator = torch.Generator().manual_seed(0)
    features = torch.nn.functional.normalize(torch.rand(4, 16, generator=generator), dim=1)
    calls: dict[str, Callable[[], object]] = {
        "classifier": lambda: wsoup.Soup("x", 1, "a {}.", tiny_encoder.id, (Member("y"),)).classifier(**how),
        "images": lambda: wsoup.encode_images(torch.rand(2, 3, 16, 16), model=model, progress=False),
        "head": lambda: wsoup.fit_head(features, [0, 1, 0, 1], **how),
        "soup": lambda: wsoup.descriptor_soup(features, [0, 1, 0, 1], descriptors=["x"], m=1, progress=False, **how),
    }
    with pytest.raises(ModelError, match=message) as caught:
        calls[what]()
    assert "\n" not in str(caught.value)
