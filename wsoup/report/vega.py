"""Vega, which draws the page's figures, as one script."""

from contextlib import suppress
from importlib.metadata import version

import vl_convert

from wsoup.base.errors import MismatchError, MissingError
from wsoup.disk import cache_folder
from wsoup.disk.checked import read_checked, write_checked


def vega_script() -> str:
    """JavaScript of Vega, Vega-Lite and Vega-Embed, all of the page's needs.

    vl_convert puts it together in 1.4 processor seconds, more than all the rest of a page takes, and always alike. So
    it is kept in the cache folder, one file for each version.
    """
    file = cache_folder.cache_dir() / "page" / f"vega-{version('vl-convert-python')}.js"
    with suppress(MissingError, MismatchError):
        return read_checked(file).decode()
    script = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub asks for what is optional
    # A folder that cannot be written to costs time, and no page.
    with suppress(OSError):
        cache_folder.make_cache_dir()
        write_checked(file, script.encode())
    return script
