"""`wsoup init`: a folder that DVC can run, that follows the installed wsoup, and that keeps the user's changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from processes import run_module, run_stage
from run_cli import run

from wsoup.base import project
from wsoup.base.errors import DataError
from wsoup.disk import code
from wsoup.pipeline import folder as folders


@pytest.fixture
def folder(in_tmp) -> Path:
    assert run("init", "soups")[0] == 0
    return in_tmp / "soups"


def test_every_local_file_named_by_dvc_yaml_and_params_exists(folder):
    stages = yaml.safe_load((folder / "dvc.yaml").read_text())["stages"]
    named = {dep for stage in stages.values() for dep in stage.get("do", stage)["deps"]}
    generated = ("artifacts", "$", folders.code_file(folders.KIND))
    missing = [dep for dep in named if not dep.startswith(generated) and not (folder / dep).exists()]
    assert missing == []
    assert not any(dep.startswith("wsoup") for dep in named)
    params = (folder / "params.yaml").read_text()
    assert params == Path(project.file("params.yaml")).read_text()
    watched = {section["watch"] for section in yaml.safe_load(params).values() if "watch" in section}
    toy_outs = {"data/toy/encoder", "data/toy/world"}
    assert [path for path in watched - toy_outs if not (folder / path).exists()] == []


def test_dvc_reads_the_folder_without_the_library_in_it(folder):
    ended, printed = run_module("dvc", "stage", "list", folder=folder)
    assert ended == 0, printed
    assert "soup@word" in printed


def test_each_stage_depends_on_the_rooms_that_decide_it(folder):
    stages = yaml.safe_load((folder / "dvc.yaml").read_text())["stages"]
    for name, stage in stages.items():
        listed = {dep for dep in stage.get("do", stage)["deps"] if dep.startswith("code/")}
        rooms = code.rooms(project.file(f"stages/{name}.py"))
        assert listed - {folders.code_file(folders.KIND)} == {folders.code_file(room) for room in rooms}
        assert (folders.code_file(folders.KIND) in listed) == (name == "soup")
        for room in [*rooms, *code.kinds()]:
            assert json.loads((folder / folders.code_file(room)).read_text()) == code.digest(room)


def test_a_second_init_updates_the_folder_and_keeps_the_users_changes(folder):
    (folder / "params.yaml").write_text("mine: 1\n")
    (folder / "stages/score.py").write_text("# mine\n")
    (folder / "dvc.lock").write_text("lock: 1\n")
    record = json.loads((folder / folders.RECORD).read_text())
    (folder / "code/texts.json").write_text('"0"')  # written and recorded by an earlier wsoup
    record["files"]["code/texts.json"] = folders.hashlib.sha256(b'"0"').hexdigest()
    (folder / folders.RECORD).write_text(json.dumps(record))
    lines = run("init", "soups")[1].splitlines()
    assert lines[1:] == run("init", "soups")[1].splitlines()[1:] == ["kept as you changed it: stages/score.py"]
    assert (folder / "params.yaml").read_text() == "mine: 1\n"
    assert (folder / "stages/score.py").read_text() == "# mine\n"
    assert (folder / "dvc.lock").exists()
    assert json.loads((folder / "code/texts.json").read_text()) == code.digest("wsoup/texts")


def test_a_folder_with_other_files_is_refused(in_tmp):
    Path("full").mkdir()
    Path("full/letter.txt").write_text("dear")
    with pytest.raises(DataError, match=r"full is not empty and was not made by `wsoup init`; name a new folder"):
        folders.create(Path("full"))
    assert [path.name for path in Path("full").iterdir()] == ["letter.txt"]


def test_a_stage_refuses_to_run_with_another_wsoup(folder):
    run_stage(folder, "candidates", root=folder)
    (folder / "code/params.json").write_text("{}")
    refused = run_stage(folder, "candidates", code=1, root=folder)
    assert "soups belongs to another wsoup than the installed" in refused
    assert "run `wsoup init .` there to bring it up to date" in refused


def test_profiles_and_the_papers_tables_are_read_from_any_folder(in_tmp):
    from wsoup.paper import tables as paper

    assert run("profile", "demo")[1] == project.file("params.yaml").read_text()
    assert run("profile", "paper", "--data-root", "/data", "--gpt-descriptors", "none")[0] == 0
    assert paper.read("zero_shot")[0]["method"] == "CLIP ZS"


def test_the_package_contains_every_file_that_it_reads():
    """setup.py copies these; files that the toy world generates are not among them."""
    listed = project.listed()
    for name in ("dvc.yaml", "data/profiles/own.yaml", "data/paper/rows.csv", "data/toy/render.py", "stages/soup.py"):
        assert name in listed
    assert not [name for name in listed if name.startswith(("data/toy/world", "data/toy/encoder/"))]
