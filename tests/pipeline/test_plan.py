"""The plan held against the miniature project's real run: what is cached, what runs again, and what it costs."""

from __future__ import annotations

import contextlib
import re

import pytest
import yaml
from project import Project, miniature_params
from rich.console import Console

from wsoup.core.errors import ParamsError
from wsoup.pipeline.graph import changed_files, read_stages, to_run, with_changes
from wsoup.pipeline.machine import Machine
from wsoup.pipeline.plan import Line, Plan, breaks, plan
from wsoup.pipeline.plan_show import show


@pytest.fixture(scope="module")
def planned(project: Project) -> Plan:
    with contextlib.chdir(project.folder):
        return plan(on="cpu")


def line(planned: Plan, stage: str) -> Line:
    return next(found for found in planned.lines if found.stage == stage)


def really_encoded(project: Project, name: str, *item: str) -> list[tuple[int, int]]:
    """Texts and tokens as a stage prints them; it makes the same bytes again."""
    printed = project.run("python", "-m", f"stages.{name}", *item)
    return [(int(n), int(m)) for n, m in re.findall(r"(\d+) texts and (\d+) tokens encoded here", printed)]


def test_after_a_run_all_is_cached(planned):
    assert [found.stage for found in planned.lines if found.why] == []
    assert {"score@words", "soup@word", "report"} <= {found.stage for found in planned.lines}


def test_a_plan_takes_none_of_dvcs_locks(project, monkeypatch):
    """A `dvc repro` that is going on would end for want of them."""
    from dvc.repo import Repo

    monkeypatch.chdir(project.folder)
    with Repo(".") as repo, repo.lock:
        assert changed_files() == {}


@pytest.mark.parametrize("stage", ["score@words", "score@descriptors", "evaluate"])
def test_texts_and_tokens_are_those_that_the_stage_computes(project, planned, stage):
    name, _, item = stage.partition("@")
    found = line(planned, stage).need.text
    assert [(found.texts[1], found.tokens[1])] == really_encoded(project, name, *([item] if item else []))
    assert found.texts[0] == found.texts[1]


def test_the_survey_lies_between_its_bounds_and_searches_between_theirs(project, planned):
    for stage in ("survey", "soup@word", "soup@descriptor"):
        name, _, item = stage.partition("@")
        printed = really_encoded(project, name, *([item] if item else []))
        texts, tokens = (sum(values) for values in zip(*printed, strict=True))
        found = line(planned, stage).need.text
        assert found.texts[0] <= texts <= found.texts[1], stage
        assert found.tokens[0] <= tokens <= found.tokens[1], stage


def test_bytes_of_features_within_ten_per_cent(project, planned):
    for stage, folder in (("embed@photo", "photo-test"), ("embed_train", "photo-train"), ("embed@dim", "dim-test")):
        path = project.folder / f"artifacts/embeddings/pretrained/{folder}.zarr"
        real = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        assert line(planned, stage).need.disk == pytest.approx(real, rel=0.1)


def test_a_change_runs_what_is_behind_it_again(project, monkeypatch, capsys):
    monkeypatch.chdir(project.folder)
    changed = plan(changes=["soups.word.k0=3"], device="h100", count=8, on="cpu")
    again = {found.stage for found in changed.lines if found.why}
    assert {"soup@word", "finetune@coop_diverse", "evaluate", "report"} <= again
    assert not again & {"score@words", "soup@descriptor", "finetune@ce", "embed@photo", "survey"}
    show(changed, Console(width=200))
    printed = capsys.readouterr().out
    assert "8 x h100" in printed
    assert "soups.word changed" in printed


def test_more_images_and_candidates_than_there_are(project, monkeypatch):
    monkeypatch.chdir(project.folder)
    found = plan(images=10**8, candidates=10**6, on="cpu")
    assert sum(f.need.images for f in found.lines if f.stage.startswith("embed@")) == pytest.approx(10**8, abs=3)
    # Of 13 words the empty text, which comes twice, is many.
    assert line(found, "score@words").need.text.texts[1] == pytest.approx(4 * 10**6, rel=0.2)
    assert line(found, "embed@photo").need.disk == pytest.approx(4 * 10**7 * 16 * 4, rel=0.5)


def test_the_first_thing_that_breaks_is_named_with_what_to_do(project, monkeypatch):
    monkeypatch.chdir(project.folder)
    found = plan(images=10**8, on="cpu")
    small = Machine("small", 1e9, 10.0, apart=False, memory=2**20, disk=2**20, about="made for this test")
    first, *others = breaks(found.lines, [small])
    assert re.match(r"prepare@\w+: [\d.]+ GiB in memory, 0.00 GiB are here: .*split it into several datasets", first)
    assert any(text.startswith("disk: ") for text in others)


def test_changes_are_made_where_params_has_a_section():
    raw = {"soups": {"word": {"k0": 1}}}
    assert with_changes(raw, ["soups.word.k0=50"]) == {"soups": {"word": {"k0": 50}}}
    assert raw["soups"]["word"]["k0"] == 1
    for bad in ("soups.word.k0", "soup.word.k0=1"):
        with pytest.raises(ParamsError, match=rf"-S {bad}: expected a key of params.yaml and a value"):
            with_changes(raw, [bad])


def test_an_unknown_device_and_a_wrong_key_are_refused(project, monkeypatch):
    monkeypatch.chdir(project.folder)
    with pytest.raises(ParamsError, match="--device h101 --count 1: expected one or more of h200, h100"):
        plan(device="h101", on="cpu")
    with pytest.raises(ParamsError, match=r"unknown key 'soups.word.ko'; did you mean 'k"):
        plan(changes=["soups.word.ko=1"], on="cpu")


def test_where_nothing_has_run_everything_runs(tmp_path, monkeypatch, tiny_encoder_files):
    from project import ROOT

    monkeypatch.chdir(tmp_path)
    raw = yaml.safe_load(yaml.safe_dump(miniature_params(tiny_encoder_files)))
    stages = read_stages(raw, dvc_yaml=ROOT / "dvc.yaml")
    assert set(to_run(stages, raw, changed_files={}).values()) == {"never run"}
    names = [stage.name for stage in stages]
    assert names.index("score@words") < names.index("soup@word") < names.index("evaluate") < names.index("report")
