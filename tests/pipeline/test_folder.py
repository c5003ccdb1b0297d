"""`wsoup init`: a folder that DVC can run, that follows the installed wsoup, and that keeps the user's changes."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from processes import run_module, run_stage
from run_cli import run
from yaml_in_c import safe_load

from wsoup.base import project
from wsoup.base.errors import DataError
from wsoup.disk import code
from wsoup.pipeline import folder as folders
from wsoup.pipeline.installed import BEFORE, RECORD


@pytest.fixture
def folder(in_tmp) -> Path:
    assert run("init", "soups")[0] == 0
    return in_tmp / "soups"


def test_every_local_file_named_by_dvc_yaml_and_params_exists(folder):
    stages = safe_load((folder / "dvc.yaml").read_text())["stages"]
    named = {dep for stage in stages.values() for dep in stage.get("do", stage)["deps"]}
    missing = [dep for dep in named if not dep.startswith(("artifacts", "$")) and not (folder / dep).exists()]
    assert missing == []
    plots = safe_load((folder / "dvc.yaml").read_text())["plots"]
    assert [plot for plot in plots for about in plot.values() if not (folder / about["template"]).is_file()] == []
    params = (folder / "params.yaml").read_text()
    assert params == Path(project.file("params.yaml")).read_text()
    watched = {section["watch"] for section in safe_load(params).values() if "watch" in section}
    toy_outs = {"data/toy/encoder", "data/toy/world"}
    assert [path for path in watched - toy_outs if not (folder / path).exists()] == []


def test_dvc_reads_the_folder_without_the_library_in_it(folder):
    ended, printed = run_module("dvc", "stage", "list", folder=folder)
    assert ended == 0, printed
    assert "soup@word" in printed


def test_the_folder_has_the_checkouts_dvc_yaml_and_a_file_in_place_of_the_library(folder):
    assert (folder / "dvc.yaml").read_bytes() == project.file("dvc.yaml").read_bytes()
    record = json.loads((folder / "wsoup").read_text())
    assert record["code"] == code.digest(code.library())
    assert set(record["files"]) >= {"dvc.yaml", "params.yaml", "stages/soup.py", "data/plots/gains.json"}


def test_stage_code_writes_the_digests_of_the_installed_library(folder):
    run_stage(folder, "code", root=folder)
    written = safe_load((folder / "artifacts/code.yaml").read_text())
    del written["evaluate"]  # which has an optional key in params.yaml, and so a digest of its own
    for stages in (folder / "stages", code.ROOT / "stages"):
        of_code = code.digests(stages)
        del of_code["evaluate"]
        assert written == of_code


def test_a_second_init_updates_the_folder_and_keeps_the_users_changes(folder):
    (folder / "params.yaml").write_text("mine: 1\n")
    (folder / "stages/score.py").write_text("# mine\n")
    (folder / "dvc.lock").write_text("lock: 1\n")
    record = json.loads((folder / RECORD).read_text())
    (folder / "dvc.yaml").write_text("stages: {}\n")  # written and recorded by an earlier wsoup
    record["files"]["dvc.yaml"] = hashlib.sha256(b"stages: {}\n").hexdigest()
    (folder / RECORD).write_text(json.dumps(record))
    lines = run("init", "soups")[1].splitlines()
    assert lines[1:] == run("init", "soups")[1].splitlines()[1:] == ["kept as you changed it: stages/score.py"]
    assert (folder / "params.yaml").read_text() == "mine: 1\n"
    assert (folder / "stages/score.py").read_text() == "# mine\n"
    assert (folder / "dvc.lock").exists()
    assert (folder / "dvc.yaml").read_bytes() == project.file("dvc.yaml").read_bytes()


def test_a_folder_with_other_files_is_refused(in_tmp):
    Path("full").mkdir()
    Path("full/letter.txt").write_text("dear")
    with pytest.raises(DataError, match=r"full is not empty and was not made by `wsoup init`; name a new folder"):
        folders.create(Path("full"))
    assert [path.name for path in Path("full").iterdir()] == ["letter.txt"]


def test_a_folder_of_an_earlier_wsoup_is_brought_up_to_date(folder):
    """Until 0.3 its record lay in code/, beside digests of rooms."""
    record = json.loads((folder / RECORD).read_text())
    (folder / RECORD).unlink()
    (folder / "code").mkdir()
    (folder / BEFORE).write_text(json.dumps({"wsoup": "0.3.0", "files": record["files"]}))
    assert run("init", "soups")[0] == 0
    assert json.loads((folder / RECORD).read_text()) == record


SCRIPT = """
import runpy, sys
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""A module beside a wsoup that is installed elsewhere: runs a script of the working folder with it."""


@pytest.fixture
def upgraded(folder, tmp_path_factory):
    """The folder of a wsoup that is then upgraded: a copy of the library with an edit, installed elsewhere."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(code.ROOT / "wsoup", site / "wsoup")
    for name in project.file_names():
        (site / "wsoup/_project" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project.file(name), site / "wsoup/_project" / name)
    (site / "script.py").write_text(SCRIPT)
    return site


def wsoup_of(site: Path, folder: Path, *command: str, good: bool = True) -> str:
    """Run a command in a pipeline folder with the wsoup of `site`."""
    code, printed = run_module(*command, folder=folder, root=site)
    assert (code == 0) is good, printed
    return printed


@pytest.mark.parametrize(
    ("old", "new", "differing"),
    [
        ("    after = ", "    # What follows.\n    after = ", set()),
        ('after += "."', 'after += " ."', None),
    ],
    ids=["a comment", "an operator"],
)
def test_after_an_upgrade_init_and_stage_code_say_which_stages_changed(folder, upgraded, old, new, differing):
    wsoup_of(upgraded, folder, "wsoup", "init", ".")
    wsoup_of(upgraded, folder, "script", "stages", "code")
    before = safe_load((folder / "artifacts/code.yaml").read_text())
    prompts = upgraded / "wsoup/core/prompts.py"
    assert prompts.read_text().count(old) == 1
    prompts.write_text(prompts.read_text().replace(old, new))
    if differing is None:
        refused = wsoup_of(upgraded, folder, "script", "stages", "candidates", good=False)
        assert "run `wsoup init .` and then `dvc repro candidates`, which runs stage code before it" in refused
        refused = wsoup_of(upgraded, folder, "script", "stages", "code", good=False)
        assert "soups belongs to another wsoup than the installed" in refused
        assert "run `wsoup init .` there to bring it up to date, then `dvc repro`" in refused
        differing = set(before)
    wsoup_of(upgraded, folder, "wsoup", "init", ".")
    wsoup_of(upgraded, folder, "script", "stages", "code")
    after = safe_load((folder / "artifacts/code.yaml").read_text())
    assert {stage for stage in after if after[stage] != before[stage]} == differing


def test_profiles_and_the_papers_tables_are_read_from_any_folder(in_tmp):
    from wsoup.paper import tables as paper

    assert run("profile", "demo")[1] == project.file("params.yaml").read_text()
    assert run("profile", "paper", "--data-root", "/data", "--gpt-descriptors", "none")[0] == 0
    assert paper.table_rows("zero_shot")[0]["method"] == "CLIP ZS"


def test_the_package_contains_every_file_that_it_reads():
    """setup.py copies these; files that the toy world generates are not among them."""
    listed = project.file_names()
    for name in ("dvc.yaml", "data/profiles/own.yaml", "data/paper/rows.csv", "data/toy/render.py", "stages/soup.py"):
        assert name in listed
    assert not [name for name in listed if name.startswith(("data/toy/world", "data/toy/encoder/"))]
