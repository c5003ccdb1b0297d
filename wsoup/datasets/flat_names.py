"""The command that writes a list of photos whose classes their names or their folders show, as a proposal."""

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from wsoup.datasets.listing import some, split_name
from wsoup.datasets.photo_files import IMAGE_SUFFIXES, ending
from wsoup.datasets.walk import names_in

NUMBERED = re.compile(r"^(.*[^0-9_.() -])[_.( -]*[0-9]+\)?\.[A-Za-z0-9]+$")
ODD = re.compile(r'[,"\n\r]|(^|/)[.@]')
AS_SED = r"s/^(.*[^0-9_.() -])[_.( -]*[0-9]+\)?\.[A-Za-z0-9]+$/&,\1/p"
"""The same for sed, which writes a row of the list."""
FOLDER = "[^/.@][^/]*/"
"""For sed, a folder that is not hidden."""


def proposal(folder: Path) -> str:
    """What to do with a folder of photos whose names show classes; "" if they show none."""
    names = [name for name in names_in(folder) if ending(name) in IMAGE_SUFFIXES]
    classes = Counter(found[1] for name in names if (found := NUMBERED.match(name)) is not None)
    is_plain = not any(letter in name for name in names for letter in ',"\n')
    if len(classes) < 2 or classes.total() < max(2 * len(classes), len(names)) or not is_plain:
        return ""
    place = shlex.quote(str(folder))
    command = f"(cd {place} && (echo path,label; ls | sed -nE {shlex.quote(AS_SED)}) > list.csv)"
    return (
        f"the names of its photos show {len(classes)} classes, {some(sorted(classes))}; to take these, write a list, "
        f"{command}, and name {folder / 'list.csv'}"
    )


def list_of_inner_folders(base: str, images: Sequence[str], *, splits: Mapping[str, str]) -> str:
    """The command that writes a list of photos whose innermost folders are the classes; "" if it might lose photos.

    Args:
        base: the folder, in which the list is written.
        images: paths of its photos, relative to the folder of their split.
        splits: prefix of each split's folder relative to `base`, by our names; that of photos without splits is "".
    """
    endings = sorted({path.rpartition(".")[2] for path in images})
    depths = {path.count("/") for path in images}
    # What the command's pattern passes over must not be there, or photos would be lost without a word.
    is_plain = len(depths) == 1 and not any(map(ODD.search, images))
    if not is_plain or not all(f".{one.lower()}" in IMAGE_SUFFIXES for one in endings):
        return ""
    file = rf"{FOLDER * (min(depths) - 1)}([^/]+)/[^/]+\.({'|'.join(endings)})"
    header = "path,label"
    as_sed = rf"s#^\./({file})$#\1,\2#p"
    if any(splits.values()):
        names = [prefix.removesuffix("/") for prefix in splits.values()]
        # A list's reader must know them, too.
        if [split_name(name) for name in names] != [*splits]:
            return ""
        header = "path,label,split"
        as_sed = rf"s#^\./(({'|'.join(names)})/{file})$#\1,\3,\2#p"
    rows = f"find -L . | sort | sed -nE {shlex.quote(as_sed)}"
    return f"(cd {shlex.quote(base)} && (echo {header}; {rows}) > list.csv)"
