"""Tuned weights on disk: what is stored, and that it loads to the same features, onto the same encoder only."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from finetune_cases import METHODS, finetune_params
from safetensors.torch import load_file, save_file

from wsoup.base.errors import MismatchError, MissingError
from wsoup.disk.store import read_checked_object, sha256_file, write_checked_object
from wsoup.finetune.params import SnapshotParams
from wsoup.finetune.train import Trainer
from wsoup.finetune.tuned import load_tuned, members_divergence_log, pack_student, save_tuned, snapshots_in
from wsoup.images.pixels import encode_pixels
from wsoup.texts.encoder import PromptEncoder

TEXTS = ["a photo of a red.", "a photo of a blue, ears."]


def trained(encoder, colours, name: str) -> Trainer:
    shared = finetune_params(iterations=1)
    return Trainer(encoder, source=colours, method=shared.methods[name], shared=shared, seed=3)


def store(folder, run: Trainer, name: str) -> None:
    config = {"encoder": run.encoder.id, "method": name, "seed": 3, "tune": run.method.tune.model_dump()}
    packed = pack_student(run.run(), log=run.log, snapshots=run.snapshots)
    save_tuned(folder, packed=packed, config=config | {"template": run.source.template})


@pytest.mark.parametrize("name", METHODS)
def test_saving_and_loading_keeps_the_features(tiny_encoder, colours, name, tmp_path):
    run = trained(tiny_encoder, colours, name)
    store(tmp_path, run, name)
    tuned = load_tuned(tmp_path, encoder=tiny_encoder)
    pixels = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    tokens = tiny_encoder.tokenizer(TEXTS)
    with torch.no_grad():
        for part, given in (("encode_image", pixels), ("encode_text", tokens)):
            features, expected = (getattr(model, part)(given) for model in (tuned.model, run.student))
            torch.testing.assert_close(features, expected, rtol=1e-5, atol=1e-6)
    texts = PromptEncoder(tuned.model, tuned.tokenizer, device=tuned.device)  # a wrong guess would warn
    has_adapter = any(hasattr(block.mlp, "adapter") for block in tuned.model.text_blocks)
    has_more = tuned.model.soft_descriptors is not None or tuned.model.deep_prompts is not None
    assert texts.fast == (not has_adapter and not has_more)
    torch.testing.assert_close(texts.encode(TEXTS), tuned.encode_texts(TEXTS), rtol=1e-5, atol=1e-6)
    assert {k: tuned.id[k] for k in tiny_encoder.id} == tiny_encoder.id
    assert (tuned.id["method"], tuned.id["seed"]) == (name, 3)
    assert tuned.id["tuned_weights"] == sha256_file(tmp_path / "weights.safetensors")
    config = json.loads((tmp_path / "config.json").read_text())
    stored = load_file(tmp_path / "weights.safetensors")
    assert config["parameters"] == sum(stored[name].numel() for name in {*stored} & {*run.student.trained_names})
    assert set(stored) == set(run.student.stored_names)
    assert config["tunes_images"] == tuned.model.tunes_images
    if not tuned.model.tunes_images:
        assert torch.equal(encode_pixels(tuned, pixels), encode_pixels(tiny_encoder, pixels))


def test_descriptors_that_started_from_a_soup_load_without_the_soups_file(tiny_encoder, colours, tmp_path):
    """Its texts are in config.json."""
    shared = finetune_params(iterations=1)
    tune = shared.methods["coop_ensemble"].tune.model_copy(update={"start": "soup"})
    method = shared.methods["coop_ensemble"].model_copy(update={"tune": tune, "soup": "word"})
    source = dataclasses.replace(colours, soup=["sharp", "wet nose"])
    run = Trainer(tiny_encoder, source=source, method=method, shared=shared, seed=3)
    store(tmp_path, run, "coop_ensemble")
    config = read_checked_object(tmp_path / "config.json")
    write_checked_object(tmp_path / "config.json", config | {"soup": list(source.soup)})
    tuned = load_tuned(tmp_path, encoder=tiny_encoder)
    assert torch.equal(tuned.model.soft_descriptors, run.student.soft_descriptors)


def test_a_snapshot_loads_as_the_model_at_its_iteration(tiny_encoder, colours, tmp_path):
    shared = finetune_params(iterations=3)
    method = shared.methods["coop"].model_copy(update={"snapshots": SnapshotParams(every=2, images=1)})
    run = Trainer(tiny_encoder, source=colours, method=method, shared=shared, seed=3)
    store(tmp_path, run, "coop")
    assert snapshots_in(tmp_path) == [0, 2, 3]
    snapshots = {i: load_tuned(tmp_path, encoder=tiny_encoder, iteration=i) for i in (0, 2, 3)}
    for i, tuned in snapshots.items():
        assert torch.equal(tuned.model.soft_prompt, run.snapshots[i]["soft_prompt"])
        assert tuned.id["iteration"] == i
    last = load_tuned(tmp_path, encoder=tiny_encoder)
    assert torch.equal(snapshots[3].model.soft_prompt, last.model.soft_prompt)
    assert not torch.equal(snapshots[0].model.soft_prompt, last.model.soft_prompt)
    assert torch.equal(snapshots[2].load().model.soft_prompt, snapshots[2].model.soft_prompt)


def test_another_encoder_is_refused(tiny_encoder, colours, tmp_path):
    store(tmp_path, trained(tiny_encoder, colours, "coop"), "coop")
    other = dataclasses.replace(tiny_encoder, id={**tiny_encoder.id, "weights": "0" * 64})
    with pytest.raises(MismatchError, match=r"was made with another encoder .*weights"):
        load_tuned(tmp_path, encoder=other)


def test_weights_that_do_not_fit_their_config_are_refused(tiny_encoder, colours, tmp_path):
    store(tmp_path, trained(tiny_encoder, colours, "coop"), "coop")
    save_file({"soft_prompt": torch.zeros(2, 16)}, tmp_path / "weights.safetensors")
    with pytest.raises(MismatchError, match=r"does not fit its config.json \(first at soft_prompt\)"):
        load_tuned(tmp_path, encoder=tiny_encoder)


def test_a_flipped_bit_of_weights_or_snapshots_is_noticed(tiny_encoder, colours, tmp_path):
    shared = finetune_params(iterations=1)
    method = shared.methods["coop"].model_copy(update={"snapshots": SnapshotParams(every=1, images=1)})
    run = Trainer(tiny_encoder, source=colours, method=method, shared=shared, seed=3)
    store(tmp_path, run, "coop")
    for name, iteration in (("weights.safetensors", None), ("snapshots.safetensors", 1)):
        path = tmp_path / name
        whole = path.read_bytes()
        for i in (len(whole) - 1, len(whole) - 40):
            path.write_bytes(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :])
            with pytest.raises(MismatchError, match=rf"{name} is damaged: its checksum .* `dvc repro finetune`"):
                load_tuned(tmp_path, encoder=tiny_encoder, iteration=iteration)
        path.write_bytes(whole)
        load_tuned(tmp_path, encoder=tiny_encoder, iteration=iteration)


def test_a_flipped_bit_of_the_header_is_noticed(tiny_encoder, colours, tmp_path):
    """Of names, shapes, places and the checksum itself."""
    store(tmp_path, trained(tiny_encoder, colours, "coop"), "coop")
    path = tmp_path / "weights.safetensors"
    whole = path.read_bytes()
    n_header = int.from_bytes(whole[:8], "little")
    header = whole[8 : 8 + n_header].rstrip()
    for i in range(8, 8 + len(header), 5):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :])
        with pytest.raises(MismatchError, match=r"weights.safetensors .*dvc repro"):
            load_tuned(tmp_path, encoder=tiny_encoder)


def test_a_folder_without_a_model_is_an_error(tiny_encoder, tmp_path):
    with pytest.raises(MissingError, match=r"config\.json does not exist.*dvc repro finetune"):
        load_tuned(tmp_path / "nothing", encoder=tiny_encoder)


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("iteration,loss\n0,1.5\n", "a column is missing"),
        ("", "a column is missing"),
        ("iteration,members_kl\n0,1.5\n1,2.\x185\n", "could not convert"),
        ("iteration,members_kl\n0,1.5\n1\n", "could not convert"),
        ("iteration,members_kl\n0.5,1.5\n", "invalid literal"),
        ("iteration,members_kl\n0," + "9" * 200_000, "field larger than field limit"),
        (None, "No such file"),
    ],
)
def test_a_damaged_log_is_one_line(tmp_path, log, why):
    if log is not None:
        (tmp_path / "log.csv").write_text(log)
    with pytest.raises(MismatchError, match=rf"log\.csv holds no tuned model or is damaged \(.*{why}"):
        members_divergence_log(tmp_path)
