"""Stage finetune: what it refuses, which images it trains on, and how it resumes."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from PIL import Image
from processes import Running, run_stage
from project import ROOT, call_stage
from safetensors.torch import load_file
from small_world import write_image_folder
from yaml_in_c import safe_load

from wsoup.base.errors import ChangedError, DataError, MismatchError, MissingError
from wsoup.core.member import Member
from wsoup.core.soup import Soup
from wsoup.disk import store
from wsoup.finetune.tuned import load_tuned
from wsoup.towers.features import ImageFeatures, write_features

COLOURS = {"blue": (40, 50, 210), "green": (30, 180, 40), "red": (200, 30, 30)}
COMMON = {"soup": "word", "learning_rate": 0.01, "prompt_factor": 1}
TEMPLATE = "a photo of a {}."


@pytest.fixture
def world(in_tmp: Path, tiny_encoder, tiny_encoder_files, monkeypatch) -> Path:
    """params.yaml, images, manifest, splits and soups of three colours and two seeds."""
    monkeypatch.setenv("WSOUP_DEVICE", "cpu")
    write_image_folder(Path("images"), splits={"train": 4}, classes=COLOURS)
    rows = list_images()
    for seed in (1, 2):
        chosen = [{"path": row["path"], "label": row["label"], "row": i} for i, row in enumerate(rows) if i % 4 != seed]
        store.write_table(f"artifacts/splits/colours/seed{seed}.parquet", pa.Table.from_pylist(chosen))
        members = tuple(Member(text) for text in ("sharp", "old nice", "big"))
        Soup("chains", seed, TEMPLATE, tiny_encoder.id, members).save(f"artifacts/soups/word/seed{seed}.json")
    embed(range(len(rows)), encoder=tiny_encoder.id)
    params = safe_load((ROOT / "params.yaml").read_text())
    source = {"role": "source", "layout": "imagefolder", "root": "images", "watch": "images"}
    params |= {"source": "colours", "seeds": [1, 2], "encoder": tiny_encoder_files}
    params["datasets"] = {"colours": {**source, "template": TEMPLATE}}
    taught = {"kind": "cross_entropy", "lambda": 0.25, "teacher_logit_scale": 10}
    params["report"]["method"] = "coop"
    params["finetune"] |= {"iterations": 60, "batch_size": 3, "log_every": 20}
    params["finetune"]["methods"] = {
        "ce": {
            "tune": {"kind": "last_blocks", "blocks": 1, "prompt_tokens": 3},
            "loss": taught,
            "snapshots": {"every": 8, "images": 4},
            **COMMON,
        },
        "coop": {"tune": {"kind": "prompt", "tokens": 3}, "loss": taught, **COMMON},
    }
    pool = Path("data/toy/descriptors.txt")  # where params.yaml says
    pool.parent.mkdir(parents=True)
    pool.write_bytes((ROOT / pool).read_bytes())
    Path("params.yaml").write_text(yaml.safe_dump(params))
    return in_tmp


def list_images() -> list[dict[str, object]]:
    """What `prepare` does: write the manifest with the present digest of every image; its rows."""
    paths = sorted(Path("images/train").rglob("*.png"))
    rows = [
        {
            "path": str(path.relative_to("images")),
            "label": list(COLOURS).index(path.parent.name),
            "digest": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in paths
    ]
    attributes = {"class_names": list(COLOURS), "template": TEMPLATE, "root": "images"}
    store.write_table("artifacts/manifests/colours.parquet", pa.Table.from_pylist(rows), attributes=attributes)
    return rows


def embed(rows: Sequence[int], *, encoder: dict[str, object]) -> None:
    """What `embed_train` does, as far as training is concerned: which images could be decoded."""
    features = ImageFeatures(np.ones((len(rows), 1)), np.zeros(len(rows)), np.array(rows), {"encoder": encoder})
    write_features("artifacts/embeddings/pretrained/colours-train.zarr", features)


def tuned(method: str) -> dict[str, bytes]:
    folder = Path("artifacts/finetuned") / method
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.*"))}


def weights(method: str) -> dict[str, bytes]:
    return {name: data for name, data in tuned(method).items() if name.endswith("weights.safetensors")}


def test_killed_training_resumes_or_starts_again_if_its_state_is_damaged(world):
    run_stage(world, "finetune", "ce")
    whole = tuned("ce")
    names = ("config.json", "log.csv", "snapshots.safetensors", "weights.safetensors")
    assert set(whole) == {f"seed{seed}/{name}" for seed in (1, 2) for name in names}

    states = Path(".cache/wsoup/finetune@ce")
    shutil.rmtree(states)  # or there would be nothing to do
    killed = Running(world, "finetune", "ce", WSOUP_SAVE_SECONDS="0")
    assert killed.until(lambda: [*states.rglob("*.running")])  # until the first state is saved
    killed.send(9)
    assert killed.wait()[0] == -9
    assert tuned("ce") == whole, "what was there stays until the new one is whole"
    (state,) = states.rglob("*.running")
    data = state.read_bytes()
    shutil.copytree(states, "killed")
    flipped = data[:200] + bytes([data[200] ^ 1]) + data[201:]
    for spoiled in (data, data[:-9], flipped, b"<html>"):
        shutil.rmtree(states)
        shutil.rmtree("artifacts/finetuned")
        shutil.copytree("killed", states)
        state.write_bytes(spoiled)
        printed = run_stage(world, "finetune", "ce")
        message = ".running is damaged: its checksum is not that of its bytes: training starts again"
        assert (message in printed) == (spoiled != data)
        assert tuned("ce") == whole


def test_a_finished_seed_is_not_trained_again(world):
    killed = Running(world, "finetune", "ce")
    states = Path(".cache/wsoup/finetune@ce")
    assert killed.until(lambda: [*states.rglob("*.part")])
    killed.send(9)
    killed.wait()
    (part,) = states.rglob("*.part")
    written = part.stat().st_mtime_ns
    printed = run_stage(world, "finetune", "ce")
    assert re.search(r"ce: \d+ of \d+ iterations were finished before; going on", printed)
    assert part.stat().st_mtime_ns == written


def test_each_seed_has_its_own_draws_and_says_which_seed_it_is(world):
    """With the same images and soup for both, what differs is the seed alone: of batches, crops and flips."""
    for kind, suffix in (("splits/colours", "parquet"), ("soups/word", "json")):
        folder = Path("artifacts") / kind
        shutil.copy(folder / f"seed1.{suffix}", folder / f"seed2.{suffix}")
    soup = store.read_json("artifacts/soups/word/seed2.json")
    store.write_json("artifacts/soups/word/seed2.json", {**soup, "seed": 2})
    call_stage("finetune", "coop")
    configs = [json.loads(tuned("coop")[f"seed{seed}/config.json"]) for seed in (1, 2)]
    assert [config["seed"] for config in configs] == [1, 2]
    differing = {key for key in configs[0] if configs[0][key] != configs[1][key]}
    assert differing == {"seed", "checksum"}
    shared = configs[0]["params"]["shared"]
    assert "methods" not in shared, "an edit of another method is none of this one's"
    assert (shared["iterations"], shared["batch_size"]) == (60, 3)
    first, second = weights("coop").values()
    assert first != second


def test_inverted_images_give_other_weights(world):
    """Same paths, same labels: only the digests in the manifest differ."""
    call_stage("finetune", "coop")
    before = weights("coop")
    for path in Path("images/train").rglob("*.png"):
        Image.fromarray(255 - np.asarray(Image.open(path))).save(path)
    with pytest.raises(ChangedError, match=r"\d.png changed since it was listed; run `dvc repro --force"):
        call_stage("finetune", "coop")
    list_images()
    call_stage("finetune", "coop")
    assert before.keys() == weights("coop").keys()
    assert all(data != before[name] for name, data in weights("coop").items())


def test_a_bad_image_stops_training_or_was_left_out_by_embed_train(world, tiny_encoder):
    Path("images/train/green/00.png").write_bytes(b"broken")
    list_images()
    with pytest.raises(DataError, match=r"green/00.png is not an image of a known format .*embed.on_bad_image: skip"):
        call_stage("finetune", "coop")
    embed([row for row in range(12) if row != 4], encoder=tiny_encoder.id)
    call_stage("finetune", "coop")
    assert set(weights("coop")) == {"seed1/weights.safetensors", "seed2/weights.safetensors"}


def test_a_soup_of_another_encoder_is_refused(world):
    soup = store.read_json("artifacts/soups/word/seed1.json")
    other = {**soup, "encoder": {**soup["encoder"], "weights": "other"}}
    store.write_json("artifacts/soups/word/seed1.json", other)
    with pytest.raises(MismatchError, match=r"was made with another encoder \(weights:"):
        call_stage("finetune", "coop")
    assert not tuned("coop")


def test_a_missing_folder_of_images_is_named(world):
    Path("images").rename("elsewhere")
    with pytest.raises(MissingError, match=r"datasets.colours.root: folder images does not exist"):
        call_stage("finetune", "coop")


def test_a_rate_is_chosen_on_held_out_images_and_said_beside_the_weights(world):
    """The weights are those of the chosen rate, as if params.yaml had named it."""
    params = safe_load(Path("params.yaml").read_text())
    coop = params["finetune"]["methods"]["coop"]
    params["finetune"] |= {"iterations": 4, "methods": {"coop": coop | {"select": {"learning_rate": [1.0e-9, 0.05]}}}}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    call_stage("finetune", "coop")
    config = json.loads(Path("artifacts/finetuned/coop/seed1/config.json").read_text())
    assert [each["learning_rate"] for each in config["selected"]] == [1.0e-9, 0.05]
    assert len({each["n_images"] for each in config["selected"]}) == 1
    best = max(config["selected"], key=lambda each: (each["n_correct"], -each["learning_rate"]))
    assert config["params"]["learning_rate"] == best["learning_rate"]
    selected = weights("coop")
    del params["finetune"]["methods"]["coop"]["select"]
    params["finetune"]["methods"]["coop"]["learning_rate"] = best["learning_rate"]
    Path("params.yaml").write_text(yaml.safe_dump(params))
    call_stage("finetune", "coop")
    assert weights("coop") == selected
    assert "selected" not in json.loads(Path("artifacts/finetuned/coop/seed1/config.json").read_text())


@pytest.mark.parametrize("name", ["prolip", "promptsrc", "clip_lora", "both_stages_2sfs"])
def test_later_rivals_are_trained_stored_and_loaded_as_the_toy_world_lists_them(world, tiny_encoder, name):
    method = safe_load((ROOT / "data/toy/rivals.yaml").read_text())[name]
    del method["group"]
    params = safe_load(Path("params.yaml").read_text())
    params["report"]["method"] = name
    params["finetune"] |= {"iterations": 6, "methods": {name: method | {"soup": "word"}}}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    call_stage("finetune", name)
    folder = Path("artifacts/finetuned") / name / "seed1"
    model = load_tuned(folder, encoder=tiny_encoder).model
    stored = {
        "prolip": {"model.visual.proj"},
        "promptsrc": {"soft_prompt", "deep_prompts", "visual_prompts"},
    }
    stored["clip_lora"] = {name for name in model.stored_names if name.endswith(("0.down", "0.up"))}
    norms = {name for name in model.stored_names if ".ln_1." in name or ".ln_2." in name}
    stored["both_stages_2sfs"] = norms | {"class_weights"}
    assert list(model.class_directions()) == (list(COLOURS) if "class_weights" in model.stored_names else [])
    assert set(model.stored_names) == stored[name]
    assert json.loads((folder / "config.json").read_text())["tunes_images"] is True
    weights = load_file(folder / "weights.safetensors")
    assert set(weights) == stored[name]
    assert all(weights[key].isfinite().all() for key in weights)
