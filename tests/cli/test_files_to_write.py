"""Files that a command writes: none is replaced unasked, no input ever, and nothing of another kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from wsoup.base.errors import ParamsError
from wsoup.cli.common import check_ending, claim


@pytest.fixture
def files(in_tmp: Path) -> Path:
    Path("mine.csv").write_text("mine")
    Path("folder.csv").mkdir()
    Path("link.csv").symlink_to("mine.csv")
    Path("nowhere.csv").symlink_to("gone.csv")
    return in_tmp


def test_a_new_file_is_written_and_an_old_one_only_with_force(files):
    claim([("--out", "new.csv"), ("--html", None)], inputs=["mine.csv", None], force=False)
    claim([("--out", "mine.csv")], force=True)
    with pytest.raises(ParamsError, match=r"^--out mine\.csv exists already; give another name, or --force"):
        claim([("--out", "mine.csv")], force=False)


def test_a_link_is_replaced_only_with_force_though_it_leads_nowhere(files):
    claim([("--out", "nowhere.csv")], force=True)
    with pytest.raises(ParamsError, match=r"--out nowhere\.csv exists already"):
        claim([("--out", "nowhere.csv")], force=False)


def test_a_folder_is_never_replaced(files):
    with pytest.raises(ParamsError, match=r"--out folder\.csv exists already"):
        claim([("--out", "folder.csv")], force=True)


@pytest.mark.parametrize("name", ["mine.csv", "link.csv", "folder.csv/../mine.csv"])
def test_an_input_is_never_replaced_whatever_it_is_called(files, name):
    with pytest.raises(ParamsError, match="is also an input; give another name"):
        claim([("--html", "new.html"), ("--out", name)], inputs=["mine.csv"], force=True)
    with pytest.raises(ParamsError, match="is also an input; give another name"):
        claim([("--out", "mine.csv")], inputs=[name], force=True)


def test_the_ending_says_of_which_kind_a_file_is():
    for name in ("a.html", "a.htm", "A.HTML"):
        check_ending(Path(name), ".html", ".htm", option="--out")
    with pytest.raises(ParamsError, match=r"--out a\.html\.png must end in \.html or \.htm: a file of that name is"):
        check_ending(Path("a.html.png"), ".html", ".htm", option="--out")
