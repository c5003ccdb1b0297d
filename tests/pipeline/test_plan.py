"""The plan compared with the miniature project's real run: what is cached, what runs again, and what it costs."""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path

import pytest
import yaml
from project import ROOT, Project, miniature_params
from repository import make_dvc_folder

from wsoup.base.errors import ParamsError
from wsoup.params.graph import read_graph
from wsoup.pipeline.needs import Need, Needs
from wsoup.pipeline.params import parse_params
from wsoup.pipeline.plan import Planned, hours, plan, too_large
from wsoup.pipeline.profile_paper import Paper
from wsoup.pipeline.status import reasons


@pytest.fixture(scope="module")
def planned(project: Project) -> dict[str, Planned]:
    with contextlib.chdir(project.folder):
        stages, notes = plan()
    assert notes == []
    return stages


def test_after_a_run_every_stage_is_cached(planned):
    assert [stage for stage, step in planned.items() if step.why] == []
    assert {"score@words", "soup@word", "report"} <= set(planned)


def test_a_plan_takes_none_of_dvcs_locks(project, monkeypatch):
    """A running `dvc repro` would fail to get them."""
    from dvc.repo import Repo

    monkeypatch.chdir(project.folder)
    with Repo(".") as repo, repo.lock:
        assert set(reasons().values()) == {None}


@pytest.mark.parametrize("stage", ["score@words", "score@descriptors", "soup@word", "evaluate"])
def test_texts_are_those_that_the_stage_encodes_to_a_factor_of_two(project, planned, stage):
    shutil.rmtree(project.folder / ".cache/wsoup" / stage)  # the finished shards of the run
    name, _, item = stage.partition("@")
    printed = project.run("python", "stages", name, *([item] if item else []))
    encoded = sum(int(n) for n in re.findall(r"(\d+) texts and \d+ tokens encoded here", printed))
    need = planned[stage].need
    assert encoded / 2 <= need.texts * need.classes <= 2 * encoded


def test_images_are_those_of_the_manifests(planned):
    images = {stage: step.need.images for stage, step in planned.items() if stage.startswith("embed")}
    assert images == {"embed@photo": 12, "embed@dim": 12, "embed@other": 6, "embed_train": 13}


def test_a_change_runs_the_stages_behind_it(project):
    project.edit("soups.word", k0=3)
    printed = project.run("wsoup", "plan")
    project.git("checkout", "-q", "params.yaml")
    again = {line.split()[0]: line for line in printed.partition("cached: ")[0].splitlines()}
    assert {"soup@word", "finetune@coop_diverse", "evaluate", "report", "all"} <= again.keys()
    assert not again.keys() & {"score@words", "soup@descriptor", "finetune@ce", "embed@photo"}
    assert "soups.word changed" in again["soup@word"]
    assert "cached: " in printed


def test_the_paper_is_planned_before_its_images_are_there(in_tmp):
    """An H100 in fp32 encodes the paper's 1.2 x 10^5 test images in about as many products as 35 GFLOP each."""
    raw = yaml.safe_load(Paper("/data").text())
    needs = Needs(parse_params(raw, origin="paper"))
    assert needs.unknown == {}
    assert (needs.of("embed@imagenet").images, needs.of("embed_train").images) == (50_000, 48_000)
    assert needs.of("embed@imagenet").flops == pytest.approx(50_000 * 35.1e9, rel=0.1)
    assert (needs.of("score@words").texts, needs.of("score@words").classes) == (10_000, 1_000)
    raw["encoder"]["model"] = "nobody-knows"
    assert Needs(parse_params(raw, origin="paper")).of("embed@dtd").flops == needs.of("embed@dtd").flops


def test_hours_and_memory_are_those_of_the_need():
    need = Need(flops=3600e9, image_bytes=25e6 * 3600)
    took = hours(need, rate=1e9, cores=2) - hours(Need(), rate=1e9, cores=2)
    assert took == pytest.approx(1.5)  # products, then decoding on every core
    needs = {"embed@photo": Need(memory=2**31), "score@words": Need(memory=2**20)}
    (line,) = too_large({name: Planned("never run", need, 1.0) for name, need in needs.items()}, memory=2**30)
    assert line.startswith("too large: embed@photo needs 2 GiB of memory, this machine has 1: use fewer images")


def test_hours_are_of_a_named_device(project, planned, monkeypatch):
    monkeypatch.chdir(project.folder)
    stages, _ = plan(device="h100")
    assert stages["score@words"].hours < planned["score@words"].hours
    with pytest.raises(ParamsError, match="--device h101: expected one of h200, h100"):
        plan(device="h101")


def test_before_the_first_run_every_stage_runs(tmp_path, monkeypatch, tiny_encoder_files):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "dvc.yaml", "dvc.yaml")
    make_dvc_folder(tmp_path)
    Path("params.yaml").write_text(yaml.safe_dump(miniature_params(tiny_encoder_files)))
    why = reasons()
    assert set(why) == set(read_graph().stages)
    assert set(why.values()) == {"never run"}
    names = list(why)
    assert names.index("score@words") < names.index("soup@word") < names.index("evaluate") < names.index("report")
