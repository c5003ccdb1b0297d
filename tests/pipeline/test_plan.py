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
from yaml_in_c import safe_load

from wsoup.base.errors import ParamsError
from wsoup.params.graph import read_graph
from wsoup.pipeline.params import parse_params
from wsoup.pipeline.planning.machine import Machine, machine_of
from wsoup.pipeline.planning.need import Need
from wsoup.pipeline.planning.needs import Needs
from wsoup.pipeline.planning.plan import START, Planned, hours, plan, too_large
from wsoup.pipeline.profiles.paper import Paper
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
    assert re.search(
        r"^at least [\d.]+ min: DVC skips what is behind a stage whose outs come out the same$", printed, re.M
    )


def test_the_paper_is_planned_before_its_images_are_there(in_tmp):
    """An H100 in fp32 encodes the paper's 1.2 x 10^5 test images in about as many products as 35 GFLOP each."""
    raw = safe_load(Paper("/data").text())
    needs = Needs(parse_params(raw, origin="paper"))
    assert needs.unknown == {}
    assert (needs.of("embed@imagenet").images, needs.of("embed_train").images) == (50_000, 48_000)
    assert needs.of("embed@imagenet").flops == pytest.approx(50_000 * 35.1e9, rel=0.1)
    assert (needs.of("score@words").texts, needs.of("score@words").classes) == (10_000, 1_000)
    raw["encoder"]["model"] = "nobody-knows"
    assert Needs(parse_params(raw, origin="paper")).of("embed@dtd").flops == needs.of("embed@dtd").flops


HERE = Machine(1e9, 2, 1, "this machine", 2**30, is_separate=False)


def test_hours_and_memory_are_those_of_the_need():
    need = Need(flops=3600e9, image_bytes=25e6 * 3600)
    took = hours(need, HERE) - hours(Need(), HERE)
    assert took == pytest.approx(1.5)  # products, then decoding on every core
    needs = {
        "embed@photo": Need(memory=2**31),
        "finetune@ce": Need(memory=2**29, device_memory=2**30),
        "score@words": Need(memory=2**20),
    }
    stages = {name: Planned("never run", need, 1.0) for name, need in needs.items()}
    photo, ce = too_large(stages, machine=HERE)
    assert photo.startswith("too large: embed@photo needs 2 GiB of memory, this machine has 1: use fewer images")
    assert ce.startswith("too large: finetune@ce needs 2 GiB of memory, this machine has 1: it would compute")


def test_memory_is_compared_with_the_device_that_was_chosen():
    t4 = machine_of("t4")
    stages = {"finetune@ce": Planned("never run", Need(memory=2**50, device_memory=2**34), 1.0)}
    (line,) = too_large(stages, machine=t4)
    assert line.startswith("too large: finetune@ce needs 16 GiB of memory, one t4 has 15: ")
    assert too_large(stages, machine=machine_of("h100")) == []


def test_devices_share_shards_and_what_follows_them_is_done_by_one():
    """Nine shards on four devices are three rounds: a third of the hours, not a quarter."""
    need = Need(flops=10e12, alone=1e12, shards=9)
    assert hours(need, HERE._replace(rate=1e9, devices=4)) - hours(Need(), HERE) == pytest.approx(
        (9e12 / 1e9 / 3 + 1e12 / 1e9) / 3600
    )
    three = Need(flops=9e12, shards=3)
    assert hours(three, HERE._replace(devices=8)) == hours(three, HERE._replace(devices=3))


def paper(*methods: str, **values: object) -> Needs:
    """The needs of the paper with all methods, or some."""
    raw = safe_load(Paper("/data", "/data/gpt", methods="all").text())
    if methods:
        raw["finetune"]["methods"] = {name: raw["finetune"]["methods"][name] for name in methods}
        raw["report"]["method"] = methods[0]
        raw["landscape"]["methods"] = []
    return Needs(parse_params(raw | values, origin="paper"))


def test_seeds_share_lower_blocks_and_one_decoding_in_evaluate_tuned(in_tmp):
    """Three of twelve blocks are trained: three seeds are 9 + 3 x 3 blocks, half of three passes."""
    needs = paper("ce", "coop")
    one_pass = needs.n_test * needs.towers.image_flops
    seen = needs.seen("ce")
    assert seen.flops == pytest.approx(1.5 * one_pass)
    assert needs.of("evaluate_tuned@ce").images == needs.n_test, "each decoded once"
    assert needs.of("evaluate_tuned@ce").image_bytes == needs.n_test * 110_000
    assert needs.of("evaluate_tuned@coop").images == 0, "its image tower is the pretrained one"


@pytest.mark.parametrize(("method", "gib"), [("ce_diverse", 7.9), ("coop_diverse", 6.1)])
def test_memory_of_training_is_what_an_h100_measured(in_tmp, method, gib):
    """reports/gpu.md, fp32, to a quarter."""
    needed = paper(method).of(f"finetune@{method}").device_memory
    assert needed / 2**30 == pytest.approx(gib, rel=0.25)


def test_the_means_of_evaluates_rows_count_as_memory(in_tmp):
    """Ten times the seeds are ten times the rows, of 4 bytes for each class and dimension, twice."""
    few = paper("ce", seeds=[1])
    many = paper("ce", seeds=list(range(1, 11)))
    more = many.of("evaluate").device_memory - few.of("evaluate").device_memory
    assert more == 9 * few._rows() * few.classes * few.towers.size * 4 * 2


def test_a_plan_without_images_says_that_it_is_too_short(tmp_path, monkeypatch, tiny_encoder_files):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "dvc.yaml", "dvc.yaml")
    make_dvc_folder(tmp_path)
    Path("params.yaml").write_text(yaml.safe_dump(miniature_params(tiny_encoder_files)))
    _, notes = plan(device="h100", devices=8)
    assert any(note.startswith("not counted: images: ") for note in notes)
    assert any(note.startswith("so the whole takes longer than this sum; ") for note in notes)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_has_the_rate_of_half_precision(in_tmp, precision):
    """By the sheet of an H100: 0.14 of 989 TFLOP/s in half precision, 0.56 of 67 in fp32."""
    shutil.copy(ROOT / "dvc.yaml", "dvc.yaml")
    make_dvc_folder(in_tmp)
    took = {}
    params = safe_load(Paper("/data").text())
    for each in ("fp32", precision):
        params["encoder"]["precision"] = each
        Path("params.yaml").write_text(yaml.safe_dump(params))
        stages, _ = plan(device="h100")
        took[each] = stages["score@words"].hours - START
    assert took["fp32"] / took[precision] == pytest.approx(0.14 * 989 / (0.56 * 67))


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


def test_a_plan_divides_work_as_the_stages_do():
    """It does not import them, and with them torch, so it has copies of their sizes."""
    from wsoup.evaluate import class_means, seen
    from wsoup.images import embed
    from wsoup.pipeline.planning import needs, needs_tuned

    assert needs.CLASS_PROMPTS == class_means.CLASS_PROMPTS
    assert needs.BATCHES_PER_SHARD == embed.BATCHES_PER_SHARD
    assert needs_tuned.SEEDS_AT_ONCE == seen.SEEDS_AT_ONCE
