"""A digest of code is of what a script imports."""

from __future__ import annotations

import pytest

from wsoup.disk import code


@pytest.mark.parametrize(
    ("edited", "digests"),
    [
        ("stages/s.py", {"stages/s.py"}),
        ("wsoup/a/x.py", {"wsoup/a"}),
        ("wsoup/a/unused.py", {"wsoup/a"}),
        ("wsoup/a/__init__.py", set()),
        ("wsoup/a/notes.txt", set()),
        ("wsoup/b/y.py", set()),
        ("wsoup/base/z.py", set()),
    ],
)
def test_a_digest_is_of_the_bytes_of_the_rooms_that_a_script_imports(tmp_path, monkeypatch, edited, digests):
    monkeypatch.setattr(code, "ROOT", tmp_path)
    for name in ("wsoup/a/x.py", "wsoup/b/y.py", "wsoup/base/z.py", "stages/s.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("from wsoup.a import x\nfrom wsoup.base import z\n" * name.startswith("stages"))
    before = code.digests(tmp_path / "stages/s.py")
    (tmp_path / edited).write_text("from wsoup.a import x  # edited\n")
    after = code.digests(tmp_path / "stages/s.py")
    assert set(before) == set(after) == {"stages/s.py", "wsoup/a"}
    assert {name for name in after if after[name] != before[name]} == digests
