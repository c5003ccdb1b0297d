"""The keys of resume state go by what a script imports when it runs, and by what that code means."""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from wsoup.base.errors import DataError
from wsoup.disk import code, parsed, syntax
from wsoup.disk.cache_folder import cache_dir, make_cache_dir
from wsoup.disk.checked import write_checked

STAGES = [path for path in (code.ROOT / "stages").glob("[a-z]*.py") if path.stem != "code"]

SCRIPT = "from wsoup.a import x\nfrom wsoup.base import errors\nif TYPE_CHECKING:\n    from wsoup.b import y\n"
MODULE = '"""A module."""\n\nB = 2\n"""Two."""\n\n\ndef f(n):\n    """Twice n."""\n    return n * B\n'
MODULE += 'def g(n):\n    raise ValueError(f"{n} is bad; expected 2", n)\n'


@pytest.mark.parametrize(
    ("edited", "changed"),
    [
        ("stages/s.py", True),
        ("wsoup/a/x.py", True),
        ("wsoup/a/unused.py", False),
        ("wsoup/a/__init__.py", False),
        ("wsoup/b/y.py", False),
        ("wsoup/base/errors.py", False),
    ],
)
def test_a_key_has_the_files_that_a_script_imports(tmp_path, monkeypatch, edited, changed):
    monkeypatch.setattr(code, "ROOT", tmp_path)
    for name in ("wsoup/a/x.py", "wsoup/b/y.py", "wsoup/base/errors.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(MODULE)
    script = tmp_path / "stages/s.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    assert [path.name for path in code.modules(script)] == ["s.py", "x.py"]
    before = code.digest(code.modules(script))
    (tmp_path / edited).write_text(f"{SCRIPT}y = 2\n")
    assert (code.digest(code.modules(script)) != before) is changed


def test_a_file_that_is_not_python_is_named_with_its_line(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("x = 1\ndef f(:\n")
    with pytest.raises(DataError, match=r"broken\.py, line 2: invalid syntax; mend it, then run the stage again"):
        code.source(broken)


def test_every_module_that_is_not_followed_exists_and_is_imported_by_a_stage():
    followed = {file for script in STAGES for file in code.modules(script)}
    imported = {path for file in followed for path in code.source(file).modules}
    names = {path.relative_to(code.ROOT).as_posix() for path in imported - followed}
    starting = {"stages/__main__.py", "wsoup/__init__.py"}
    assert names | starting == set(code.NOT_FOLLOWED)


def test_a_room_that_decides_results_is_always_followed():
    rooms = {"/".join(name.split("/")[:-1][:2]) for name in code.NOT_FOLLOWED.keys() - {code.ALL_KINDS}}
    assert rooms == {"stages", "wsoup", *code.UNDECIDING}
    assert set(code.UNDECIDING) == {"wsoup/base", "wsoup/pipeline", "wsoup/runtime"}


def test_what_starts_a_stage_and_is_in_no_digest_imports_only_what_decides_nothing():
    for name, packages in {
        "stages/__main__.py": {"gc", "pathlib", "runpy", "sys", "wsoup"},
        "wsoup/__init__.py": {"wsoup"},
    }.items():
        source = code.source(code.ROOT / name)
        assert source.packages == packages, name
        assert {path.parent.name for path in source.modules} == {"runtime"}, name


@pytest.mark.parametrize(
    "statement",
    [
        "from . import prior",
        "from .prior import SCALE",
        "from .. import constants",
        "from ..constants import SCALE",
        "from ..heads import prior",
        "from wsoup import constants",
        "from wsoup.heads import prior",
        "import wsoup.heads.prior",
        "import wsoup.heads.prior as p",
        "def f():\n    from . import prior",
    ],
)
def test_an_import_is_followed_however_it_is_written(tmp_path, monkeypatch, statement):
    monkeypatch.setattr(code, "ROOT", tmp_path)
    files = {"heads/choose.py": f"{statement}\n", "heads/prior.py": "SCALE = 70.0\n", "constants.py": "SCALE = 70.0\n"}
    for name, text in files.items():
        (tmp_path / "wsoup" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "wsoup" / name).write_text(text)
    script = tmp_path / "stages/head.py"
    script.parent.mkdir()
    script.write_text("from wsoup.heads import choose\n")
    before = code.digest(code.modules(script))
    imported = tmp_path / "wsoup" / ("constants.py" if "constants" in statement else "heads/prior.py")
    imported.write_text("SCALE = 7.0\n")
    assert code.digest(code.modules(script)) != before


def test_the_same_text_in_two_rooms_imports_what_lies_beside_it(tmp_path):
    for room in ("a", "b"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "x.py").write_text("from . import y\n")
        (tmp_path / room / "y.py").write_text("")
        assert code.source(tmp_path / room / "x.py").modules == {tmp_path / room / "y.py"}


def test_who_imports_open_clip_depends_on_all_that_its_images_go_through(tmp_path):
    script = tmp_path / "script.py"
    for imported, named in {
        "open_clip": {"open_clip_torch", "torchvision", "pillow"},
        "torch": {"torch"},
        "PIL.Image": {"pillow"},
        "numpy as np": {"numpy"},
        "wordfreq": {"wordfreq"},
        "json": set(),
    }.items():
        script.write_text(f"import {imported}\n")
        assert set(code.packages(script)) == named


def test_what_another_version_of_this_code_has_parsed_is_not_believed(in_tmp):
    make_cache_dir()
    script = in_tmp / "script.py"
    script.write_text("x = 1\n")
    key = hashlib.sha256(script.read_bytes()).hexdigest()
    for maker, meaning in ((code._maker(), "as kept"), ("0" * 64, syntax.meaning(ast.parse("x = 1")))):
        kept = {"maker": maker, "parsed": {key: [[], [], "as kept"]}}
        write_checked(cache_dir() / parsed.FILE, json.dumps(kept).encode())
        for remembered in (parsed.kept, code._read):
            remembered.cache_clear()
        assert code.source(script).meaning == meaning
    # What this process has read is to be read again, for the tests that follow.
    for remembered in (parsed.kept, code._read):
        remembered.cache_clear()
    code._used.clear()


def test_each_kind_of_soup_has_a_digest_and_a_helper_of_two_kinds_is_in_both(tmp_path, monkeypatch):
    files = {
        "wsoup/search/grow/all_kinds.py": "from wsoup.search.grow.one import A\nfrom wsoup.search.grow.two import B\n",
        "wsoup/search/grow/one.py": "from wsoup.search.grow.helper import x\n",
        "wsoup/search/grow/two.py": "from wsoup.search.grow.helper import x\n",
        "wsoup/search/grow/three.py": "",
        "wsoup/search/grow/helper.py": "x = 1\n",
        "stages/soup.py": "from wsoup.search.grow import all_kinds\n",
        "stages/score.py": "",
        "stages/code.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(code, "ROOT", tmp_path)
    before = code.digests(tmp_path / "stages")
    assert set(before) == {"score", "soup"}
    assert set(before["soup"]) == {"one", "two"}
    for edited, changed in {"one": {"one"}, "helper": {"one", "two"}, "three": set()}.items():
        name = f"wsoup/search/grow/{edited}.py"
        (tmp_path / name).write_text(f"{files[name]}y = 1\n")
        after = code.digests(tmp_path / "stages")
        assert after["score"] == before["score"]
        assert {kind for kind in ("one", "two") if after["soup"][kind] != before["soup"][kind]} == changed
        before = after


def test_what_is_parsed_is_kept_for_the_next_process_until_it_changes(tmp_path, monkeypatch):
    """Meaning and imports come from the file of the cache folder, which holds only what was in use."""
    monkeypatch.chdir(tmp_path)
    program = (
        "from pathlib import Path; from wsoup.disk import code; count = []; original = code._parsed; "
        "code._parsed = lambda *a, **k: count.append(1) or original(*a, **k); "
        "print(code.digest(code.modules(Path('stages/a.py'))), len(count)); code.keep_parsed()"
    )

    def run() -> tuple[str, int]:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        digest, n_parsed = done.stdout.split()
        return digest, int(n_parsed)

    script = Path("stages/a.py")
    script.parent.mkdir()
    script.write_text("from wsoup.core import prompts\nx = 1\n")
    first, n_parsed = run()
    assert n_parsed >= 2, "the script and prompts.py"
    assert not Path(".cache").exists(), "nothing is kept where wsoup has made no cache folder"
    make_cache_dir()
    assert run() == (first, n_parsed)
    assert run() == (first, 0)
    script.write_text("from wsoup.core import prompts\nx = 2\n")
    changed, n_again = run()
    assert changed != first
    assert n_again == 1
    kept = Path(".cache/wsoup/parsed.json")
    damaged = kept.read_text().replace('"names"', '"nemas"').replace("0", "1", 5)
    kept.write_text(damaged)
    assert run() == (changed, n_parsed), "a damaged file is as none"
