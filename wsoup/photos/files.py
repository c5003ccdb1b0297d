"""Photos given as files, folders or lists.

Every file of a folder and every row of a list is a photo, in the order given, so that a table of answers can be joined
by position.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from wsoup.base import remote
from wsoup.base.errors import DataError, MissingError
from wsoup.datasets import listed_folder, webdataset
from wsoup.datasets.cells import Cells, has_numbers
from wsoup.datasets.containers import of_files
from wsoup.datasets.found_files import found_below, root_of
from wsoup.datasets.left_out import in_words
from wsoup.datasets.list_classes import NO_CLASS, class_texts, classes_of
from wsoup.datasets.lists import is_list, read_cells
from wsoup.datasets.names_file import read_names
from wsoup.datasets.photo_files import ending, expected, is_photo
from wsoup.datasets.shape import named_like_splits
from wsoup.datasets.walk import SPLIT_FOLDERS, files_in
from wsoup.disk.files import shown


@dataclass(frozen=True)
class Photo:
    """One photo.

    Attributes:
        path: its file; empty if the row of a list names none.
        label: name of its class, if known (`wsoup.photos.labels`).
        columns: its other cells in the list that named it, by column.
        said: its class in the words of the list; "" if the row says nothing, None if the list has no such column.
        place: the folder or list that it is from; "" if it was named itself.
        problem: why it is not to be read, or "".
    """

    path: str
    label: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    said: str | None = None
    place: str = ""
    problem: str = ""


def find_photos(places: Sequence[str]) -> tuple[list[Photo], str]:
    """Photos in the order given; folders are searched recursively, in the order of names.

    Args:
        places: image files, folders, shards of WebDataset, or lists (`wsoup.datasets.lists`).

    Returns:
        The photos, and a line about files in folders that are no photos; "" if there are none.

    Raises:
        MissingError: a place does not exist.
        DataError: no images at all, or a list that cannot be read.
    """
    photos: list[Photo] = []
    others: Counter[str] = Counter()
    for given in places:
        # A folder may be called ``http:``; what is in it is not at a URL.
        place = os.path.join(".", given) if remote.names_url(given) else given
        shards = _shards(place)
        if shards:
            photos += _in_shards(shards, place=place)
        elif os.path.isdir(place):
            said = _said_by_its_lists(place)
            for path in files_in(place):
                if is_photo(path):
                    photos.append(Photo(path, said=None if said is None else said.get(path, ""), place=place))
                else:
                    others[ending(path)] += 1
        elif not os.path.lexists(place):
            raise MissingError(
                f"{shown(given)} does not exist; name photos, folders of photos, or a CSV with a column path"
            )
        elif is_list(place):
            photos += _in_list(Path(place))
        else:
            photos.append(Photo(place))
    if not photos:
        held = of_files(file for place in places if os.path.isdir(place) for file in files_in(place))
        step = held or f"expected {expected()} files"
        raise DataError(f"no images in {', '.join(shown(place) for place in places)}; {step}")
    if not others:
        return photos, ""
    return photos, in_words(others)


def _shards(place: str) -> Mapping[str, Sequence[Path]]:
    """The shards of WebDataset in a folder, or the one that is named; none if this is something else."""
    if os.path.isdir(place):
        return webdataset.shards(Path(place))
    return {"test": [Path(place)]} if place.endswith(".tar") and os.path.isfile(place) else {}


def _in_shards(shards: Mapping[str, Sequence[Path]], *, place: str) -> list[Photo]:
    """The photos of some shards, with their labels where they have any."""
    cells, _ = webdataset.read_shards(shards, origin=place, may_lack=True)
    texts = _class_texts(cells, names=_names_of_shards(shards, place=place))
    return [Photo(path, said=text, place=place) for path, text in zip(cells.paths, texts, strict=True)]


def _names_of_shards(shards: Mapping[str, Sequence[Path]], *, place: str) -> str | None:
    """The file of class names of some shards, which may be of one split, whose folder lies beside it."""
    beside = webdataset.names_file(Path(place), found=shards)
    folder = Path(os.path.abspath(next(iter(shards.values()))[0].parent))
    if beside is None and named_like_splits([folder.name]):
        return webdataset.names_file(folder.parent, found={})
    return beside


def _class_texts(cells: Cells, *, names: str | None) -> Sequence[str]:
    """What each image of some shards is called by a file of class names; its label if there is none."""
    labels = cells.of(cells.roles.label)
    if names is None:
        return labels
    named = read_names(names)
    if has_numbers(labels):
        classes = classes_of(cells, named=named, named_in=names, read_rows=())
        return ["" if label == NO_CLASS else classes.names[label] for label in classes.labels]
    name_of = {each.key: each.name for each in named}
    # Other texts may be captions.
    return [name_of.get(label, label) for label in labels]


def _said_by_its_lists(place: str) -> dict[str, str] | None:
    """The class of each photo by a folder's own lists; None if it has none."""
    if not listed_folder.is_listed_folder(place):
        return None
    cells, _ = listed_folder.read_all(place, wanted=SPLIT_FOLDERS, may_be_several=True)
    texts = class_texts(cells)
    paths, _ = found_below(place, cells.paths, origin=place)
    return None if texts is None else {os.path.join(place, path): text for path, text in zip(paths, texts, strict=True)}


def _in_list(path: Path) -> list[Photo]:
    """The photos of a list; relative paths are relative to it, or else to the working folder."""
    cells = read_cells(path, remarks=True, may_be_several=True)
    if not cells.paths:
        raise DataError(f"{path} has no rows below its header; expected one for each photo")
    said = class_texts(cells)
    # The answer has a column path of its own.
    written = cells.written or cells.columns
    others = [column for column in written if column.casefold() != "path"]
    problem = _url_problem(cells)
    folder = _folder_of(cells, path=path)
    photos = []
    for i, name in enumerate(_found(cells, folder=folder)):
        photo = Photo(
            name,
            columns={column: written[column][i] for column in others},
            said=None if said is None else said[i],
            place=str(path),
            problem=problem if remote.names_url(name) else "",
        )
        is_file = cells.roles.path is not None and not photo.problem
        photos.append(_located(photo, folder=folder) if is_file else photo)
    return photos


def _folder_of(cells: Cells, *, path: Path) -> Path:
    """The folder that the paths of a list are relative to: its own, or one beside that which has all of them."""
    if os.path.exists(cells.paths[0]):
        return path.parent  # the working folder's come before those beside
    try:
        return root_of(path, cells=cells)
    except DataError:
        return path.parent


def _found(cells: Cells, *, folder: Path) -> Sequence[str]:
    """The paths of a list, those of files that it names without an ending or a folder included."""
    first = cells.paths[0]
    if cells.roles.path is None or not first or remote.names_url(first) or os.path.lexists(first):
        return cells.paths
    try:
        return found_below(str(folder), cells.paths, origin=cells.origin)[0]
    except DataError:
        # Each row goes out, and says itself that its file is not there.
        return cells.paths


def _url_problem(cells: Cells) -> str:
    """Why rows with URLs are not read: a list from elsewhere must not make this machine fetch anything."""
    urls = [path for path in cells.paths if remote.names_url(path)]
    if not urls:
        return ""
    return (
        f"{len(urls):,} of {len(cells.paths):,} rows of {shown(cells.origin)} name URLs, such as {urls[0][:100]!r}; "
        "nothing that a list names is fetched: download the photos, and list their files"
    )


def _located(photo: Photo, *, folder: Path) -> Photo:
    """A photo with the file that its row means, if there is one."""
    # From Windows, where steps are separated otherwise; but here a name may hold a backslash.
    for spelling in dict.fromkeys((photo.path, photo.path.replace("\\", "/"))):
        beside = folder / spelling
        if spelling and os.path.exists(beside):
            return replace(photo, path=str(beside))
        if os.path.exists(spelling):
            return replace(photo, path=spelling)
    return photo
