"""The keys of resume state go by what a script imports when it runs, and by what that code means."""

from __future__ import annotations

import pytest

from wsoup.disk import code

SCRIPT = "from wsoup.a import x\nfrom wsoup.base import z\nif TYPE_CHECKING:\n    from wsoup.b import y\n"
MODULE = '"""A module."""\n\nB = 2\n"""Two."""\n\n\ndef f(n):\n    """Twice n."""\n    return n * B\n'


@pytest.mark.parametrize(
    ("edited", "changed"),
    [
        ("stages/s.py", {"stages/s.py"}),
        ("wsoup/a/x.py", {"wsoup/a/x.py"}),
        ("wsoup/a/unused.py", set()),
        ("wsoup/a/__init__.py", set()),
        ("wsoup/b/y.py", set()),
        ("wsoup/base/z.py", set()),
    ],
)
def test_a_key_has_the_files_that_a_script_imports(tmp_path, monkeypatch, edited, changed):
    monkeypatch.setattr(code, "ROOT", tmp_path)
    for name in ("wsoup/a/x.py", "wsoup/b/y.py", "wsoup/base/z.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(MODULE)
    script = tmp_path / "stages/s.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    before = code.meanings(script)
    (tmp_path / edited).write_text(f"{SCRIPT}y = 2\n")
    after = code.meanings(script)
    assert set(before) == set(after) == {"stages/s.py", "wsoup/a/x.py"}
    assert {name for name in after if after[name] != before[name]} == changed


@pytest.mark.parametrize(
    "same",
    [
        MODULE.replace("B = 2", "# The factor.\nB = 2  # two"),
        MODULE.replace("A module.", "Another text."),
        MODULE.replace('    """Twice n."""\n', ""),
        MODULE.replace('"""Two."""\n', ""),
        MODULE.replace("n * B", "(\n        n\n        * B\n    )"),
        f"\n\n{MODULE}",
    ],
)
def test_comments_docstrings_and_formatting_have_no_meaning(same):
    assert same != MODULE
    assert code.meaning(same) == code.meaning(MODULE)


@pytest.mark.parametrize(
    "other",
    [
        MODULE.replace("n * B", "n / B"),
        MODULE.replace("B = 2", "B = 2.0"),
        MODULE.replace("B = 2", "B = True"),
        MODULE.replace("f(n)", "f(n=1)"),
        MODULE.replace("n * B", '"n" * B'),
    ],
)
def test_operators_constants_and_names_have(other):
    assert other != MODULE
    assert code.meaning(other) != code.meaning(MODULE)
