"""The files that `wsoup check` looks at where it looks at no model, as stamps: nothing was changed if these are equal.

Only folders of images on this machine are stamped. A list or a split file may name images anywhere, and remote storage
says nothing of its files without being asked for each; such datasets are looked at every time.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISDIR

from wsoup.base import remote
from wsoup.disk.files import Artifacts
from wsoup.pipeline.params import Params


def stamps(params: Params) -> list[str] | None:
    """A digest of each file and of each folder with all below it; None where these are not all that is looked at.

    Args:
        params: names the files, relative to the working folder.
    """
    sections = params.datasets.values()
    here = os.path.realpath(".")
    for section in sections:
        if section.layout != "imagefolder" or remote.is_remote(section.root) or _holds(section.root, here):
            return None
    given = list(_given(params))
    # What is missing may be made by DVC, which the files beside it say.
    if not all(os.path.exists(path) for path in given):
        return None
    return [here, *map(_stamp_of, given), *map(_stamp_of, _made(params))]


def _given(params: Params) -> Iterator[str]:
    """What params.yaml names: images, class names, texts, and the model's files."""
    candidates = params.candidates
    encoder = params.encoder
    places: list[str | Path | None] = [candidates.waffle, encoder.config, encoder.weights_file]
    for section in params.datasets.values():
        places += [section.root, section.watch, section.class_names, section.fewshot_pickles]
        places += [given.path for given in section.class_texts]
        places += [section.templates, section.names]
    places += params.evaluate.template_files.values()
    for pool in candidates.pools:
        places += candidates.files(pool)
    # A folder is often both what is read and what is watched.
    for place in dict.fromkeys(places):
        if place is not None:
            yield str(place)


def _made(params: Params) -> Iterator[Path]:
    """What earlier runs have made, if they have: a missing input matters less, and changed images are noticed."""
    artifacts = Artifacts()
    yield artifacts.evaluated
    yield artifacts.features(params.source, split="train")
    for pool in params.candidates.pools:
        yield artifacts.pool(pool)
    for name in params.datasets:
        yield artifacts.manifest(name)


def _holds(folder: str, place: str) -> bool:
    """Whether a place is a folder or lies below it: a run's own files change whenever it runs."""
    whole = os.path.realpath(folder)
    return os.path.commonpath([whole, place]) == whole


def _stamp_of(path: str | Path) -> str:
    digest = hashlib.sha256()
    for line in _lines(os.fspath(path), seen=frozenset()):
        digest.update(os.fsencode(line) + b"\n")
    return digest.hexdigest()


def _lines(path: str, *, seen: frozenset[str]) -> Iterator[str]:
    """A line for a file, or for all that a folder holds; hidden files, too, since a ``.dvc`` folder matters."""
    try:
        status = os.stat(path)
        target = os.readlink(path) if os.path.islink(path) else ""
        names = sorted(os.listdir(path)) if S_ISDIR(status.st_mode) else None
    except OSError as error:
        yield f"{path!r} {error.errno}"
        return
    if names is None:
        yield f"{path!r} {target!r} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
        return
    # The folder itself: its time also changes with files that are there for a moment.
    yield f"{path!r} {target!r} {status.st_ino}"
    real = os.path.realpath(path)
    if real in seen:  # a link that leads back
        return
    for name in names:
        yield from _lines(os.path.join(path, name), seen=seen | {real})
