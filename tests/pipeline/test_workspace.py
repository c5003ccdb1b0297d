"""Facts about `wsoup init`: a folder that DVC understands, that follows its wsoup, and keeps what its user changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from run_cli import run

from wsoup.core.errors import DataError
from wsoup.disk import project
from wsoup.pipeline import workspace


@pytest.fixture
def folder(in_tmp) -> Path:
    assert run("init", "soups")[0] == 0
    return Path("soups")


def test_every_local_file_that_dvc_yaml_and_params_name_is_there(folder):
    stages = yaml.safe_load((folder / "dvc.yaml").read_text())["stages"]
    named = {dep for stage in stages.values() for dep in stage.get("do", stage)["deps"]}
    made = ("artifacts", "$")
    missing = [dep for dep in named if not dep.startswith(made) and not (folder / dep).exists()]
    assert missing == []
    assert not any(dep.startswith("wsoup") for dep in named)
    params = (folder / "params.yaml").read_text()
    assert params == Path(project.file("params.yaml")).read_text()
    watched = {section["watch"] for section in yaml.safe_load(params).values() if "watch" in section}
    toy_outs = {"data/toy/encoder", "data/toy/world"}
    assert [path for path in watched - toy_outs if not (folder / path).exists()] == []


def test_dvc_draws_its_graph_without_the_library_beside(folder):
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "stage", "list"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "soup@word" in done.stdout


def test_each_stage_depends_on_the_code_that_decides_it(folder):
    stages = yaml.safe_load((folder / "dvc.yaml").read_text())["stages"]
    for name, stage in stages.items():
        deps = stage.get("do", stage)["deps"]
        script = stage.get("do", stage)["cmd"].removeprefix("python -m stages.")
        assert deps[-2:] == [f"stages/{script}.py", f"code/{script}.json"], name
        assert "wsoup/disk/store.py" in json.loads((folder / f"code/{script}.json").read_text())


def test_doing_it_again_brings_up_to_date_and_keeps_what_the_user_changed(folder):
    (folder / "params.yaml").write_text("mine: 1\n")
    (folder / "stages/score.py").write_text("# mine\n")
    (folder / "dvc.lock").write_text("lock: 1\n")
    code = folder / "code/score.json"
    old = code.read_text().replace('"', '"0', 1)
    record = json.loads((folder / workspace.RECORD).read_text())
    code.write_text(old)  # as an earlier wsoup wrote it, and knew that it did
    record["files"]["code/score.json"] = workspace.hashlib.sha256(old.encode()).hexdigest()
    (folder / workspace.RECORD).write_text(json.dumps(record))
    said = run("init", "soups")[1].splitlines()
    assert said[1:] == ["kept as you changed it: stages/score.py"]
    assert (folder / "params.yaml").read_text() == "mine: 1\n"
    assert (folder / "stages/score.py").read_text() == "# mine\n"
    assert (folder / "dvc.lock").exists()
    assert json.loads(code.read_text()) == json.loads(workspace.code_file(project.file("stages/score.py")))


def test_a_folder_of_something_else_is_left_alone(in_tmp):
    Path("full").mkdir()
    Path("full/letter.txt").write_text("dear")
    with pytest.raises(DataError, match=r"full is not empty and was not made by `wsoup init`; name a new folder"):
        workspace.create(Path("full"))
    assert [path.name for path in Path("full").iterdir()] == ["letter.txt"]


def test_a_stage_refuses_another_wsoup_than_the_folders(folder):
    def candidates() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "stages.candidates"]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    assert candidates().returncode == 0
    (folder / "code/candidates.json").write_text("{}")
    refused = candidates()
    assert refused.returncode == 1
    assert "code/candidates.json is of another wsoup than the one installed" in refused.stderr
    assert "run `wsoup init .` to bring this folder up to date" in refused.stderr


def test_profiles_and_the_papers_tables_are_read_from_any_folder(in_tmp):
    from wsoup.report import paper

    assert run("profile", "demo")[1] == project.file("params.yaml").read_text()
    assert run("profile", "paper", "--data-root", "/data", "--without-descriptors")[0] == 0
    assert paper.read("zero_shot")[0]["method"] == "CLIP ZS"


def test_the_package_carries_all_that_it_reads():
    """setup.py copies these; generated files of the toy world are none of them."""
    listed = project.listed()
    for name in ("dvc.yaml", "data/profiles/own.yaml", "data/paper/rows.csv", "data/toy/render.py", "stages/soup.py"):
        assert name in listed
    assert not [name for name in listed if name.startswith(("data/toy/world", "data/toy/encoder"))]
