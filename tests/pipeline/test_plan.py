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
from rich.console import Console

from wsoup.base.errors import ParamsError
from wsoup.check.whole import parse_params
from wsoup.pipeline.graph import reasons, stage_names, with_changes
from wsoup.pipeline.plan import Machine, Need, Needs, Plan, plan, show, too_large
from wsoup.profiles.paper import Paper


@pytest.fixture(scope="module")
def planned(project: Project) -> Plan:
    with contextlib.chdir(project.folder):
        return plan()


def test_after_a_run_every_stage_is_cached(planned):
    assert [stage for stage, (why, _) in planned.stages.items() if why] == []
    assert {"score@words", "soup@word", "report"} <= set(planned.stages)
    assert planned.notes == []


def test_a_plan_takes_none_of_dvcs_locks(project, monkeypatch):
    """A running `dvc repro` would fail to get them."""
    from dvc.repo import Repo

    monkeypatch.chdir(project.folder)
    with Repo(".") as repo, repo.lock:
        assert set(reasons(Path("params.yaml").read_text()).values()) == {None}


@pytest.mark.parametrize("stage", ["score@words", "score@descriptors", "soup@word", "evaluate"])
def test_texts_are_those_that_the_stage_encodes_to_a_factor_of_two(project, planned, stage):
    shutil.rmtree(project.folder / ".cache/wsoup" / stage)  # the finished shards of the run
    name, _, item = stage.partition("@")
    printed = project.run("python", "-m", f"stages.{name}", *([item] if item else []))
    encoded = sum(int(n) for n in re.findall(r"(\d+) texts and \d+ tokens encoded here", printed))
    need = planned.stages[stage][1]
    assert encoded / 2 <= need.texts * need.classes <= 2 * encoded


def test_images_are_those_of_the_manifests(planned):
    images = {stage: need.images for stage, (_, need) in planned.stages.items() if stage.startswith("embed")}
    assert images == {"embed@photo": 12, "embed@dim": 12, "embed@other": 6, "embed_train": 13}


def test_a_change_runs_the_stages_behind_it(project, monkeypatch, capsys):
    monkeypatch.chdir(project.folder)
    changed = plan(changes=["soups.word.k0=3"], device="h100")
    again = {stage for stage, (why, _) in changed.stages.items() if why}
    assert {"soup@word", "finetune@coop_diverse", "evaluate", "report"} <= again
    assert "evaluated" in again  # but writes the same, so stages that read only that are cached
    assert not again & {"score@words", "soup@descriptor", "finetune@ce", "embed@photo", "survey"}
    show(changed, Console(width=200))
    printed = capsys.readouterr().out
    assert "h h100" in printed
    assert "soups.word changed" in printed


def test_the_paper_is_planned_before_its_images_are_there(in_tmp):
    """An H100 in fp32 encodes the paper's 1.2 x 10^5 test images in about as many products as 35 GFLOP each."""
    raw = yaml.safe_load(Paper("/data").text())
    needs = Needs(parse_params(raw, origin="paper"))
    assert needs.unknown == []
    assert (needs.of("embed@imagenet").images, needs.of("embed_train").images) == (50_000, 48_000)
    assert needs.of("embed@imagenet").flops == pytest.approx(50_000 * 35.1e9, rel=0.1)
    assert (needs.of("score@words").texts, needs.of("score@words").classes) == (10_000, 1_000)
    raw["encoder"]["model"] = "nobody-knows"
    assert Needs(parse_params(raw, origin="paper")).of("embed@dtd").flops == needs.of("embed@dtd").flops


def test_hours_and_memory_are_those_of_the_need():
    need, start = Need(flops=3600e9, image_bytes=25e6 * 3600), Machine("here", 1e9, 1).hours(Need())
    assert Machine("here", 1e9, 2).hours(need) - start == pytest.approx(1.5)  # products, then decoding
    assert Machine("h100", 1e9, 2).hours(need) - start == pytest.approx(1.0)  # at the same time
    needs = {"embed@photo": Need(memory=2**31), "score@words": Need(memory=2**20)}
    (line,) = too_large(needs, memory=2**30)
    assert line.startswith("too large: embed@photo needs 2 GiB of memory, this machine has 1: use fewer images")


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
    with pytest.raises(ParamsError, match="--device h101: expected one of h200, h100"):
        plan(device="h101")
    with pytest.raises(ParamsError, match=r"unknown key 'soups.word.ko'; did you mean 'k"):
        plan(changes=["+soups.word.ko=1"])


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
