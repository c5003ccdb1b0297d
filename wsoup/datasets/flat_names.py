"""The command that writes a list of photos whose classes their names or their folders show, as a proposal."""

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from wsoup.datasets.listing import some
from wsoup.datasets.photo_files import IMAGE_SUFFIXES, ending
from wsoup.datasets.walk import names_in

NUMBERED = re.compile(r"^(.*[^0-9_.() -])[_.( -]*[0-9]+\)?\.[A-Za-z0-9]+$")
ODD = re.compile(r'[,"\n\r]|(^|/)[.@]')
AS_SED = r"s/^(.*[^0-9_.() -])[_.( -]*[0-9]+\)?\.[A-Za-z0-9]+$/&,\1/p"
"""The same for sed, which writes a row of the list."""


def proposal(folder: Path) -> str:
    """What to do with a folder of photos whose names show classes; "" if they show none."""
    names = [name for name in names_in(folder) if ending(name) in IMAGE_SUFFIXES]
    classes = Counter(found[1] for name in names if (found := NUMBERED.match(name)) is not None)
    is_plain = not any(letter in name for name in names for letter in ',"\n')
    if len(classes) < 2 or classes.total() < max(2 * len(classes), len(names)) or not is_plain:
        return ""
    place = shlex.quote(str(folder))
    command = f"cd {place} && (echo path,label; ls | sed -nE {shlex.quote(AS_SED)}) > list.csv"
    return (
        f"the names of its photos show {len(classes)} classes, {some(sorted(classes))}; to take these, write a list, "
        f"{command}, and name {folder / 'list.csv'}"
    )


def inner_folders_list(base: Path, paths: Sequence[str]) -> str:
    """How to take the inner folders of ``2019/dog/1.jpg`` for classes; "" if photos lie at several depths.

    Args:
        base: the folder.
        paths: of its photos, relative to it.
    """
    endings = sorted({path.rpartition(".")[2] for path in paths})
    # What the command's pattern passes over must not be there, or photos would be lost without a word.
    is_plain = all(path.count("/") == 2 and not ODD.search(path) for path in paths)
    if not is_plain or not all(f".{one.lower()}" in IMAGE_SUFFIXES for one in endings):
        return ""
    as_sed = rf"s#^\./([^/]+/([^/]+)/[^/]+\.({'|'.join(endings)}))$#\1,\2#p"
    command = f"(echo path,label; find -L . -type f | sort | sed -nE {shlex.quote(as_sed)}) > list.csv"
    return f"; if the inner folders are: cd {shlex.quote(str(base))} && {command}, and name {base / 'list.csv'}"
