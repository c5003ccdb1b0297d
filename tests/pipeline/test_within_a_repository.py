"""A pipeline folder within a larger git repository, and one whose repository changes line ends."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from project import Project
from repository import commit, git, new_repository
from run_cli import run

from wsoup.base.errors import DataError
from wsoup.pipeline import folder as folders


@pytest.fixture(scope="module")
def inner(first_run: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The first run in a folder of a repository that holds other things, too."""
    outer = tmp_path_factory.mktemp("outer")
    project = first_run.copy(outer / "work/soups")
    shutil.rmtree(project.folder / ".git")
    (outer / "README.md").write_text("a larger project")
    new_repository(outer)
    commit(outer, "all")
    return project


def test_compare_finds_reports_and_right_images_of_a_revision(inner: Project) -> None:
    inner.edit("heads.ridge", kind="prototypes")
    assert inner.repro("report") == {"code", "head@ridge", "report"}
    try:
        printed = inner.run("wsoup", "compare")
        assert "is not in revision HEAD" not in printed
        assert "another machine" not in printed
        assert "params: heads.ridge.kind ridge -> prototypes" in printed
        assert "head ridge" in printed
        from wsoup.report.revisions import Revision

        assert Revision("HEAD", root=inner.folder).right, "DVC's cache has the images that rows get right"
    finally:
        git(inner.folder, "checkout", "-q", "--", ".")


@pytest.mark.parametrize(
    "command",
    [
        ("results",),
        ("check",),
        ("plan",),
        ("packages",),
        ("soup", "show", "word"),
        ("soup", "export", "word", "--format", "text"),
        ("report", "--out", "page.html", "--force"),
        ("profile", "table"),
        ("compare", "HEAD"),
    ],
)
def test_every_command_works_there(inner: Project, command: tuple[str, ...]) -> None:
    printed = inner.run("wsoup", *command)
    assert "Traceback" not in printed
    assert printed


def test_a_clone_that_changes_line_ends_keeps_the_bytes_of_a_pipeline_folder(in_tmp: Path) -> None:
    assert run("init", "soups")[0] == 0
    if not Path("soups/.git").exists():
        new_repository(Path("soups"))
    for name, value in (("user.email", "nobody@example.org"), ("user.name", "nobody")):
        git(Path("soups"), "config", name, value)
    commit(Path("soups"), "begin")
    git(in_tmp, "clone", "-q", "-c", "core.autocrlf=true", "soups", "clone")
    for path in git(Path("soups"), "ls-files").split():
        assert Path("clone", path).read_bytes() == Path("soups", path).read_bytes()


def test_the_checkout_says_the_same() -> None:
    root = Path(folders.__file__).parents[2]
    assert "* -text" in (root / ".gitattributes").read_text().splitlines()


def test_a_link_to_nothing_is_not_replaced(in_tmp: Path) -> None:
    os.symlink("gone", "soups")
    with pytest.raises(DataError, match="soups is a link to gone, which does not exist; make that, or remove the link"):
        folders.create(Path("soups"))
    Path("soups").unlink()
    assert run("init", "soups")[0] == 0
    Path("soups/params.yaml").unlink()
    os.symlink("/nowhere/params.yaml", "soups/params.yaml")
    code, _, errors = run("init", "soups")
    assert code == 1
    assert "soups/params.yaml is a link to /nowhere/params.yaml, which does not exist" in errors
    assert Path("soups/params.yaml").is_symlink()
