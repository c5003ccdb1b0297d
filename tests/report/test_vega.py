"""The script of the page's figures is put together once, and again where the kept one is damaged or cannot be kept."""

from __future__ import annotations

import vl_convert

from wsoup.disk import cache_folder
from wsoup.report.vega import vega_script


def test_the_script_is_put_together_once(in_tmp, monkeypatch):
    made = []

    def bundle() -> str:
        made.append("x" * len(made))
        return "vega " + made[-1]

    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    assert vega_script() == vega_script() == "vega "
    (kept,) = (cache_folder.cache_dir() / "page").glob("vega-*.js")
    kept.write_bytes(kept.read_bytes()[:-1])
    assert vega_script() == vega_script() == "vega x"


def test_a_page_needs_no_cache_folder(in_tmp, monkeypatch):
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda: "vega")
    (in_tmp / "file").touch()
    monkeypatch.setenv("WSOUP_CACHE", str(in_tmp / "file"))
    assert vega_script() == vega_script() == "vega"
