"""Files of an image folder that no listing reads: of other kinds, outside of class folders, beside train/ or test/.

They change no result, so they are counted here and not where a folder is listed; but nobody should miss them unaware.
The same holds of class folders without photos, and of links that lead nowhere.
"""

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from wsoup.base.folder_names import composed
from wsoup.base.number_of import number_of
from wsoup.datasets.class_depth import nested_classes
from wsoup.datasets.class_folders import no_classes_line
from wsoup.datasets.listing import some
from wsoup.datasets.photo_files import TO_CONVERT, ending, is_hidden, is_photo, is_unfinished
from wsoup.datasets.shape import Shape, shape_of
from wsoup.datasets.walk import broken_links, contents_of, files_in, subfolders
from wsoup.disk.files import shown

MOST_ENDINGS = 8
"""Endings of files that are no photos which a line names."""


def left_out(root: str) -> list[str]:
    """A line for each reason why files or classes below an ImageFolder are not read, with their number.

    Args:
        root: the folder, with train/<class>/, val/<class>/ or test/<class>/, or <class>/.
    """
    shape = shape_of(root)
    others: Counter[str] = Counter()
    photos_of: dict[str, list[str]] = {}
    outside = _pictures_in(shape.base)
    broken = [str(shape.base / name) for name in broken_links(shape.base)]
    for folder in shape.holders.values():
        if folder != shape.base:
            outside += _pictures_in(folder)
            broken += [str(folder / name) for name in broken_links(folder)]
        for name in subfolders(folder):
            contents = contents_of(folder / name)
            others.update(contents.others)
            broken += [str(folder / name / path) for path in contents.broken]
            photos_of.setdefault(composed(name), []).extend(contents.images)
    lines = []
    if others:
        lines.append(in_words(others))
    if broken:
        lines.append(f"left out, since they are links that lead nowhere: {len(broken):,}, such as {shown(broken[0])}")
    # A class may have photos in another split.
    classes = sorted(name for name, photos in photos_of.items() if not photos)
    if classes:
        lines.append(f"left out, since no photo in them can be read: the class folders {some(classes)}")
    if outside:
        example = shown(outside[0])
        lines.append(f"left out, move them into class folders: {len(outside)} beside them, such as {example}")
    lines += _without_classes(shape) + _beside(shape)
    with_photos = {name: photos for name, photos in photos_of.items() if photos}
    lines += [line for line in (nested_classes(with_photos), no_classes_line(with_photos)) if line]
    return lines


def _without_classes(shape: Shape) -> list[str]:
    """A line about each folder that is named like a split and has no class folders."""
    lines = []
    for folder in shape.flat.values():
        n_pictures = sum(_is_picture(path) for path in files_in(str(folder)))
        name = folder.relative_to(shape.base).as_posix()
        lines.append(f"left out, since {name}/ has no class folders: {number_of(n_pictures, 'photo')} in it")
    return lines


def _beside(shape: Shape) -> list[str]:
    """A line about folders of photos beside those of splits."""
    beside = {}
    for name in shape.beside:
        n_pictures = sum(_is_picture(path) for path in files_in(str(shape.base / name)))
        if n_pictures:
            beside[name] = n_pictures
    if not beside:
        return []
    known = " and ".join(f"{folder.relative_to(shape.base).as_posix()}/" for folder in shape.splits.values())
    return [f"left out, only classes in {known} are read: {sum(beside.values())} in {some(list(beside))}"]


def in_words(others: Mapping[str, int]) -> str:
    """One line about files that are no photos, of which there are some, by their ending."""
    groups: dict[str, dict[str, int]] = {"convert them to .jpg": {}, "unfinished files or copies": {}, "no photos": {}}
    for kind in sorted(others):
        what = "no photos"
        if kind in TO_CONVERT:
            what = "convert them to .jpg"
        elif is_unfinished(kind):
            what = "unfinished files or copies"
        groups[what][kind] = others[kind]
    parts = [f"{what}: {_counted(group)}" for what, group in groups.items() if group]
    return f"left out, {'; '.join(parts)}"


def _counted(group: Mapping[str, int]) -> str:
    texts = [f"{count} {shown(kind) or 'without an ending'}" for kind, count in group.items()]
    if len(texts) > MOST_ENDINGS:
        n_more = sum([*group.values()][MOST_ENDINGS:])
        texts[MOST_ENDINGS:] = [f"{n_more} with {len(texts) - MOST_ENDINGS} other endings"]
    return ", ".join(texts)


def _pictures_in(folder: Path) -> list[str]:
    """Pictures that lie in a folder itself."""
    with os.scandir(folder) as entries:
        paths = [entry.path for entry in entries if entry.is_file() and not is_hidden(entry.name)]
    return sorted(path for path in paths if _is_picture(path))


def _is_picture(path: str) -> bool:
    return is_photo(path) or ending(path) in TO_CONVERT
