"""The way out for photos that lie in no class folders: their names may show classes, and boxes may lie beside them."""

from pathlib import Path

from wsoup.datasets.boxes import CROP, boxes_found, boxes_line
from wsoup.datasets.flat_names import proposal


def way_out(photos: Path, *, base: Path) -> str:
    """What to do with a folder of photos; "" if neither names nor files say anything.

    Args:
        photos: the folder, whose names may show classes.
        base: the folder that the user named, which may hold files of boxes.
    """
    of_names = proposal(photos)
    if not of_names:
        return boxes_line(base)
    found = boxes_found(base)
    if found is None:
        return of_names
    # A name is that of a whole photo, of which each object may be of another class.
    return f"{found.said}, so a photo may be of several classes: {CROP}; or, if each is of one, {of_names}"
