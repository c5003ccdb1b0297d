"""The plan compared with the miniature project's real run: what is cached, what runs again, and what it costs."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from project import ROOT, Project, miniature_params
from repository import make_dvc_folder
from rich.console import Console
from small_world import TINY_CONFIG

from wsoup.base.errors import ParamsError
from wsoup.disk import store
from wsoup.pipeline.graph import reasons, stage_names, with_changes
from wsoup.pipeline.machine import Machine
from wsoup.pipeline.needs import BYTES_PER_STORED_NUMBER
from wsoup.pipeline.plan import Line, Plan, breaks, plan, show


@pytest.fixture(scope="module")
def planned(project: Project) -> Plan:
    with contextlib.chdir(project.folder):
        return plan(on="cpu")


def line(planned: Plan, stage: str) -> Line:
    return next(line for line in planned.lines if line.stage == stage)


def really_encoded(project: Project, name: str, *item: str) -> list[tuple[int, int]]:
    """Texts and tokens as a stage prints them when it runs again."""
    printed = project.run("python", "-m", f"stages.{name}", *item)
    return [(int(n), int(m)) for n, m in re.findall(r"(\d+) texts and (\d+) tokens encoded here", printed)]


def test_after_a_run_every_stage_is_cached(planned):
    assert [line.stage for line in planned.lines if line.why] == []
    assert {"score@words", "soup@word", "report"} <= {line.stage for line in planned.lines}


def test_a_plan_takes_none_of_dvcs_locks(project, monkeypatch):
    """A running `dvc repro` would fail to get them."""
    from dvc.repo import Repo

    monkeypatch.chdir(project.folder)
    with Repo(".") as repo, repo.lock:
        assert set(reasons(Path("params.yaml").read_text()).values()) == {None}


@pytest.mark.parametrize("stage", ["score@words", "score@descriptors", "evaluate"])
def test_texts_and_tokens_are_those_that_the_stage_encodes(project, planned, stage):
    name, _, item = stage.partition("@")
    least, most = line(planned, stage).need.text[:, :2].tolist()
    ((n_texts, n_tokens),) = really_encoded(project, name, *([item] if item else []))
    assert most[0] == n_texts
    # Which descriptors are nearest a class is not known before the stage ran; they differ by a few tokens.
    assert most[1] == pytest.approx(n_tokens, rel=0.02 if name == "evaluate" else 0)
    assert least == most


def test_survey_and_searches_stay_within_their_bounds(project, planned):
    for stage in ("survey", "soup@word", "soup@descriptor"):
        name, _, item = stage.partition("@")
        printed = really_encoded(project, name, *([item] if item else []))
        texts, tokens = (sum(values) for values in zip(*printed, strict=True))
        least, most = line(planned, stage).need.text[:, :2].tolist()
        assert least[0] <= texts <= most[0], stage
        assert least[1] <= tokens <= most[1], stage


def test_bytes_of_features_are_right_within_ten_per_cent(tmp_path):
    features = np.random.default_rng(0).standard_normal((4096, 128)).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    rows = np.arange(len(features))
    store.write_features(tmp_path / "a.zarr", store.ImageFeatures(features, rows % 100, rows, {}))
    size = sum(file.stat().st_size for file in (tmp_path / "a.zarr").rglob("*") if file.is_file())
    assert features.size * BYTES_PER_STORED_NUMBER == pytest.approx(size, rel=0.1)


def test_a_change_runs_the_stages_behind_it(project, monkeypatch, capsys):
    monkeypatch.chdir(project.folder)
    changed = plan(changes=["soups.word.k0=3"], device="h100", count=8, on="cpu")
    again = {line.stage for line in changed.lines if line.why}
    assert {"soup@word", "finetune@coop_diverse", "evaluate", "report"} <= again
    assert "evaluated" in again  # but writes the same, so stages that read only that are cached
    assert not again & {"score@words", "soup@descriptor", "finetune@ce", "embed@photo", "survey"}
    show(changed, Console(width=200))
    printed = capsys.readouterr().out
    assert "8 x h100" in printed
    assert "soups.word changed" in printed


def test_a_timm_image_tower(project, tmp_path, monkeypatch):
    tower = {"image_size": 32, "timm_model_name": "resnet10t", "timm_pool": "avg", "timm_proj": "linear"}
    (tmp_path / "tiny-timm.json").write_text(json.dumps({**TINY_CONFIG, "vision_cfg": tower}))
    encoder = {"model": "tiny-timm", "config": tmp_path / "tiny-timm.json", "watch": tmp_path}
    encoder["pretrained"] = tmp_path / "tiny-timm.safetensors"
    monkeypatch.chdir(project.folder)
    planned = plan(changes=[f"encoder.{key}={value}" for key, value in encoder.items()], on="cpu")
    need = line(planned, "embed@photo").need
    assert need.disk == round(need.images * TINY_CONFIG["embed_dim"] * BYTES_PER_STORED_NUMBER)
    assert need.image_flops > 0


def test_images_and_candidates_can_be_scaled_up(project, monkeypatch):
    monkeypatch.chdir(project.folder)
    many = plan(images=10**8, candidates=10**6, on="cpu")
    assert sum(line.need.images for line in many.lines if line.stage.startswith("embed@")) == pytest.approx(
        10**8, abs=3
    )
    # With 13 words the empty text, which comes twice, is a large share.
    assert line(many, "score@words").need.text[1, 0] == pytest.approx(4 * 10**6, rel=0.2)
    assert line(many, "embed@photo").need.disk == pytest.approx(4 * 10**7 * 16 * 4, rel=0.5)


def test_the_first_thing_that_breaks_is_named_with_a_remedy(project, monkeypatch):
    monkeypatch.chdir(project.folder)
    many = plan(images=10**8, on="cpu")
    small = Machine("small", "made for this test", 1e9, 10.0, 1, overlaps=False, memory=2**20, disk=2**20)
    first, *others = breaks(many.lines, [small])
    assert re.match(r"prepare@\w+: needs [\d.]+ GiB of memory, this machine has 0.00 GiB: ", first)
    assert first.endswith("split it into several datasets")
    assert any(text.startswith("disk: ") for text in others)


def test_changes_work_as_in_dvc_exp_run(tmp_path):
    (tmp_path / "params.yaml").write_text("soups:  # by name\n  word: {k0: 1}\n")
    text = with_changes(tmp_path / "params.yaml", ["soups.word.k0=50", "+soups.word.k1=60"])
    assert yaml.safe_load(text) == {"soups": {"word": {"k0": 50, "k1": 60}}}
    assert yaml.safe_load((tmp_path / "params.yaml").read_text()) == {"soups": {"word": {"k0": 1}}}
    for bad in ("soups.word.k0", "soup.word.k0=1", "soups.word.k0=1,2"):
        with pytest.raises(ParamsError, match=rf"-S {bad}: expected a key of params.yaml and a value"):
            with_changes(tmp_path / "params.yaml", [bad])


def test_unknown_devices_and_keys_are_refused(project, monkeypatch):
    monkeypatch.chdir(project.folder)
    with pytest.raises(ParamsError, match="--device h101 --count 1: expected one or more of h200, h100"):
        plan(device="h101", on="cpu")
    with pytest.raises(ParamsError, match=r"unknown key 'soups.word.ko'; did you mean 'k"):
        plan(changes=["+soups.word.ko=1"], on="cpu")


def test_before_the_first_run_every_stage_runs(tmp_path, monkeypatch, tiny_encoder_files):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "dvc.yaml", "dvc.yaml")
    make_dvc_folder(tmp_path)
    Path("params.yaml").write_text(yaml.safe_dump(miniature_params(tiny_encoder_files)))
    why = reasons(Path("params.yaml").read_text())
    assert set(why) == set(stage_names())
    assert set(why.values()) == {"never run"}
    names = list(why)
    assert names.index("score@words") < names.index("soup@word") < names.index("evaluate") < names.index("report")
