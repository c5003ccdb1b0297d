"""Label Studio's exports of tasks whose images were given a choice, which name the files of its server."""

import dataclasses
import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from wsoup.datasets.cells import Cells
from wsoup.datasets.photo_files import IMAGE_SUFFIXES, ending

UPLOADED = "/data/upload/"
LOCAL = "/data/local-files/"
UNIQUE = re.compile(r"^[0-9a-f]{8}-(?=.)")
"""What the server puts before the name of an uploaded file, to keep two of one name apart."""


def is_label_studio(rows: Sequence[object]) -> bool:
    """Whether objects are tasks of Label Studio."""
    first = rows[0] if rows else None
    return isinstance(first, Mapping) and isinstance(first.get("data"), Mapping) and _answers(first) is not None


def classes_of_tasks(tasks: Sequence[Mapping[str, Any]], origin: str) -> tuple[dict[str, list[str]], list[str]]:
    """The choices of each task's image, of all who annotated it, and a line about tasks without any."""
    classes_of: dict[str, list[str]] = {}
    n_without = 0
    for number, task in enumerate(tasks, start=1):
        image = next((value for value in task["data"].values() if _is_image(value)), None)
        if image is None:
            raise ValueError(f"task {number} has no image")
        chosen = _choices(task)
        if not chosen:
            n_without += 1
        of_image = classes_of.setdefault(_file(image), []) if chosen else []
        of_image += [choice for choice in chosen if choice not in of_image]
    notes = [f"left out, without a choice: {n_without:,} of {len(tasks):,} tasks"] if n_without else []
    return classes_of, notes


def by_files_of_server(cells: Cells) -> Cells:
    """A list whose paths are those of Label Studio's server, as its CSV and JSON-MIN have them; any other as it is."""
    are_there = any(map(os.path.lexists, cells.paths[:1]))
    if are_there or not any(path.startswith((UPLOADED, LOCAL)) for path in cells.paths):
        return cells
    return dataclasses.replace(cells, paths=[_file(path) for path in cells.paths])


def before_upload(path: str) -> str:
    """The name that an uploaded file may have had before; any other path as it is.

    >>> before_upload("ab12cd34-056.jpg"), before_upload("photos/ab12cd34-056.jpg")
    ('056.jpg', 'photos/ab12cd34-056.jpg')
    """
    return UNIQUE.sub("", path)


def _answers(task: Mapping[str, Any]) -> Any:
    """What annotators said; older exports have another name for it."""
    return task.get("annotations", task.get("completions"))


def _choices(task: Mapping[str, Any]) -> list[str]:
    chosen: list[str] = []
    for answer in _answers(task) or ():
        # Who skipped a task chose nothing.
        if not answer.get("was_cancelled"):
            for result in answer["result"]:
                if result.get("type") == "choices":
                    chosen += [choice for choice in result["value"]["choices"] if choice not in chosen]
    return chosen


def _is_image(value: object) -> bool:
    return isinstance(value, str) and ending(_file(value)) in IMAGE_SUFFIXES


def _file(image: str) -> str:
    """The file of an image as Label Studio's server has it: an upload by its name, a local file by its path."""
    if image.startswith(UPLOADED):
        return posixpath.basename(image)
    if image.startswith(LOCAL):
        return parse_qs(urlsplit(image).query).get("d", [""])[0].lstrip("/")
    return image
