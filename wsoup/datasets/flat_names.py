"""One folder of files called ``dog_001.jpg``, ``dog_002.jpg``: the classes that their names show, as a proposal."""

import re
import shlex
from collections import Counter
from pathlib import Path

from wsoup.datasets.listing import some
from wsoup.datasets.photo_files import IMAGE_SUFFIXES, ending
from wsoup.datasets.walk import names_in

NUMBERED = re.compile(r"^(.*[^0-9_.() -])[_.( -]*[0-9]+\)?\.[A-Za-z0-9]+$")
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
