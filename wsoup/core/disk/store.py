"""Everything on disk: Zarr features, Parquet tables, JSON, named arrays. The only importer of zarr.

Every write goes to a temporary name in the same folder, to the disk itself, and is renamed, so a reader never sees half
a file, not even after a power cut. The bytes depend on the content alone: Zarr is a v3 directory store with one
uncompressed shard per array, Parquet has fixed row groups and no time stamps, JSON has sorted keys.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import shutil
import stat
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from wsoup.core.disk import remote
from wsoup.core.errors import (
    DataError,
    MismatchError,
    MissingError,
    ParamsError,
    StorageError,
    WsoupError,
    needing,
    one_line,
    storage_error,
)

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_GROUP = 100_000
ROWS_PER_CHUNK = 4096
A_DAY = 86_400.0
"""Seconds that half-written files of other machines are left alone."""
OWNED = re.compile(r"\.(?:(?P<place>[0-9a-f]{8})-)?(?P<process>\d+)-[0-9a-f]+\.tmp$")
"""How a half-written file says whose it is; those of wsoup 0.3 do not say where."""


@contextmanager
def replacing(path: str | Path, *, lasting: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes the place of `path`, on failure it is removed.

    A folder takes the place of a folder, a file that of a file, and nothing else is ever removed.

    Args:
        path: what is written.
        lasting: whether it is to outlive a power cut; that takes about 15 ms on an SSD.

    Raises:
        StorageError: the disk is full or read-only, `path` is a link to a folder, or a folder where a file is written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        check_no_link(path)
        temporary = _beside(path)
        try:
            yield temporary
            if lasting:
                _sync(temporary)
            _put(temporary, path)
            if lasting:
                _sync_one(path.parent)
        finally:
            _remove(temporary)
    except WsoupError:
        raise
    except OSError as error:
        raise storage_error(error, path=path) from None


def write_bytes(path: str | Path, payload: bytes) -> None:
    """Write a file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(payload)


def kept_aside(path: Path, *, force: bool) -> str:
    """Copy what stands at a place to a free name beside it, before a user's command replaces it.

    Returns:
        A line on it, "" where nothing stands there.

    Raises:
        ParamsError: something does, and `force` was not asked for.
    """
    if not os.path.lexists(path) or path.is_dir():  # a folder is replaced by no command
        return ""
    copy = next(place for n in count(1) if not os.path.lexists(place := path.with_name(f"{path.name}.{n}")))
    if not force:
        raise ParamsError(f"{path} is there already; --force replaces it and keeps it as {copy.name}, or name another")
    shutil.copy2(path, copy)
    return f"what stood in {path} is kept as {copy.name}"


def check_no_link(folder: Path) -> None:
    """Raise StorageError for a symbolic link to a folder: DVC refuses it too, but after the work is done."""
    if folder.is_symlink() and folder.is_dir():
        raise StorageError(
            f"{folder} is a symbolic link to a folder, which DVC does not take as part of a run; move what it leads to "
            "into its place (to keep data on another disk: `dvc cache dir` and `dvc config cache.type symlink`)"
        )


def _sync(path: Path) -> None:
    """Have a file, or all of a folder, on the disk itself: a name that outlives a power cut is not to name nothing."""
    if path.is_dir():
        with ThreadPoolExecutor(8) as pool:  # one after the other, 4,000 files take 4 to 12 s; so 0.6 s
            list(pool.map(_sync_one, path.rglob("*")))
    _sync_one(path)


def _sync_one(path: Path) -> None:
    try:
        number = os.open(path, os.O_RDONLY)
    except OSError:
        return  # a folder on Windows; whatever else is wrong with it, the rename says
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # there are file systems that cannot
            raise
    finally:
        os.close(number)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{place()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp")


@cache
def place() -> str:
    """Where numbers of processes are told apart: this machine since it was started, and this container of it."""
    told = [platform.node()]
    for read in (lambda: Path("/proc/sys/kernel/random/boot_id").read_text(), lambda: os.readlink("/proc/self/ns/pid")):
        with suppress(OSError):
            told.append(read())
    return fingerprint(told)[:8]


def _put(temporary: Path, path: Path) -> None:
    """Rename; a folder that stands there already is moved aside first, so that it is there again if that fails."""
    if not path.is_dir():
        os.replace(temporary, path)
        return
    if not temporary.is_dir():
        raise StorageError(f"{path} is a folder, expected a file; give the name of a file")
    aside = _beside(path)
    os.replace(path, aside)
    try:
        os.replace(temporary, path)
    except OSError:
        os.replace(aside, path)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _remove(path: Path) -> None:
    """What a thread still writes there (zarr's, after an interrupt) stays for `remove_abandoned`."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink(missing_ok=True)


def abandoned(*folders: str | Path) -> Iterator[Path]:
    """What killed processes left half-written below some folders; not the files of living ones.

    Whether a process of another machine or container lives, nobody can tell here: its files are left for a day.
    """
    for folder in folders:
        for path in Path(folder).rglob(".*.tmp"):
            owner = OWNED.search(path.name)
            if owner and owner["place"] == place():
                if not alive(int(owner["process"])):
                    yield path
            elif owner and time.time() - _written(path) > A_DAY:
                yield path


def _written(path: Path) -> float:
    """When a file was last written to, or anything in a folder."""
    times = [time.time()]
    with suppress(OSError):  # taken away meanwhile
        times = [inner.lstat().st_mtime for inner in (path, *path.rglob("*"))]
    return max(times)


def remove_abandoned(*folders: str | Path) -> None:
    """Remove what killed processes left half-written below some folders."""
    for path in list(abandoned(*folders)):
        _remove(path)


def alive(process: int) -> bool:
    """Whether a process of that number is there."""
    if os.name == "nt":
        return True  # there signal 0 would be sent, and end it
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # not ours to ask; no number of a process
        return True
    return True


def require(path: str | Path, *, made_by: str) -> Path:
    """`path` if it exists; else an error that says which stage makes it."""
    if not Path(path).exists():
        raise MissingError(f"{path} does not exist; it is made by stage {made_by!r}: run `dvc repro {made_by}`")
    return Path(path)


# ------------------------------------------------------------------------------------------- bytes with a checksum


def write_checked(path: str | Path, payload: bytes) -> None:
    """Write bytes behind their own SHA-256, for caches that must notice damage, such as a power cut's."""
    with replacing(path, lasting=False) as temporary, temporary.open("wb") as file:
        file.write(hashlib.sha256(payload).hexdigest().encode() + b"\n")
        file.write(payload)


def read_checked(path: str | Path) -> bytes:
    """What `write_checked` wrote.

    Raises:
        MissingError: no such file.
        MismatchError: cut short, altered, or never of this kind.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise MismatchError(f"{path} is not a file")
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise MissingError(f"{path} does not exist") from None
    except OSError as error:
        raise MismatchError(f"{path} cannot be read ({error.strerror})") from None
    digest, newline, payload = data[:64], data[64:65], data[65:]
    if newline != b"\n" or hashlib.sha256(payload).hexdigest().encode() != digest:
        raise MismatchError(f"{path} is damaged: its checksum is not that of its bytes")
    return payload


# ---------------------------------------------------------------------------------------------------------- JSON


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON with sorted keys, two spaces and a final newline; a path may be a URL."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if remote.is_remote(path):
        remote.write(str(path), text.encode())
        return
    write_bytes(path, text.encode())


LARGEST_JSON = 1 << 28
"""Bytes of a JSON file."""


def read_json(path: str | Path) -> Any:
    """Read a JSON file; a missing or broken one is one clear error, and so is a key that appears twice, or NaN.

    A path may be a URL.
    """
    try:
        if remote.is_remote(path):
            known, size = True, remote.size(str(path))
        else:
            status = os.stat(path)
            known, size = stat.S_ISREG(status.st_mode), status.st_size
        if not known or size > LARGEST_JSON:
            raise ValueError(f"no file, or one of more than {LARGEST_JSON:,} bytes")
        text = (remote.read(str(path)) if remote.is_remote(path) else Path(path).read_bytes()).decode("utf-8")
        return json.loads(text, object_pairs_hook=_each_key_once, parse_constant=_no_constant)
    except FileNotFoundError:
        raise MissingError(f"{path} does not exist") from None
    except DataError:  # of storage elsewhere
        raise
    except (ValueError, RecursionError, OSError) as error:  # numbers and depth that Python does not have, among others
        raise MismatchError(
            f"{path} is not JSON ({one_line(error, limit=200)}); make it again with `dvc repro`"
        ) from None


def read_object(path: str | Path) -> dict[str, Any]:
    """`read_json` of a file that holds an object; anything else is a MismatchError, and so is a key it has not."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise MismatchError(f"{path} does not hold a JSON object; make it again with `dvc repro`")
    return _Attributes(value, path)


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} appears twice")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


# ------------------------------------------------------------------------------------------------------- Parquet


def write_table(path: str | Path, table: pa.Table, *, attributes: Mapping[str, Any] | None = None) -> None:
    """Write a Parquet table; `attributes` (JSON values) go into the schema's metadata under ``wsoup``."""
    if attributes is not None:
        table = table.replace_schema_metadata({"wsoup": json.dumps(dict(attributes), sort_keys=True)})
    with needing():
        import pyarrow.parquet as pq
    with replacing(path) as temporary:
        pq.write_table(table, temporary, row_group_size=ROWS_PER_GROUP, compression="zstd")


def read_table(path: str | Path, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a Parquet table, or only some of its columns.

    Raises:
        MissingError: no such file.
        MismatchError: it is damaged, or lacks a column.
    """
    with _reading_parquet(path) as pq:
        return pq.read_table(path, columns=list(columns) if columns else None, partitioning=None)


def table_attributes(path: str | Path) -> dict[str, Any]:
    """The attributes that `write_table` stored; empty if none."""
    with _reading_parquet(path) as pq:
        attributes = json.loads((pq.read_schema(path).metadata or {}).get(b"wsoup", b"{}"))
        if not isinstance(attributes, dict):
            raise ValueError("its attributes are not an object")
        return _Attributes(attributes, path)


class _Attributes(dict[str, Any]):
    """What a file says of itself; a key that is not there is an error that names the file."""

    def __init__(self, attributes: Mapping[str, Any], path: str | Path) -> None:
        super().__init__(attributes)
        self._path = path

    def __missing__(self, key: str) -> Any:
        raise MismatchError(f"{self._path} does not say its {key}: it is another file; remove it and run `dvc repro`")


@contextmanager
def _reading_parquet(path: str | Path) -> Iterator[Any]:
    """Yields pyarrow.parquet; what it raises is one line."""
    if not Path(path).exists():
        raise MissingError(f"{path} does not exist; make it with `dvc repro`")
    if not Path(path).is_file():
        raise MismatchError(f"{path} is not a file; remove it and run `dvc repro`")
    with needing():
        import pyarrow as pa
        import pyarrow.parquet as pq
    try:
        yield pq
    except (pa.ArrowException, OSError, ValueError, KeyError, RecursionError) as error:
        why = one_line(error, limit=300)
        raise MismatchError(f"{path} cannot be read as Parquet ({why}); remove it and run `dvc repro`") from None


# ---------------------------------------------------------------------------------------------------------- Zarr


@dataclass(frozen=True)
class ImageFeatures:
    """Features of one dataset split, as stored.

    Attributes:
        features: (N, D) float32, L2-normalised.
        labels: (N,) int64.
        rows: (N,) int64, row of each image in the dataset's manifest.
        attributes: encoder, preprocessing, class_names, dataset, split and what else the writer said.
    """

    features: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    attributes: dict[str, Any]

    @property
    def class_names(self) -> list[str]:
        """Class names in label order."""
        return self.attributes["class_names"]


def write_features(path: str | Path, value: ImageFeatures) -> None:
    """Write one Zarr v3 group with arrays ``image_features``, ``labels`` and ``rows``, and their checksums."""
    n = len(value.labels)
    if not (len(value.features) == len(value.rows) == n):
        raise MismatchError(
            f"{path}: {len(value.features)} features, {n} labels, {len(value.rows)} rows: must be equal"
        )
    arrays: dict[str, np.ndarray] = {
        "image_features": np.ascontiguousarray(value.features, dtype=np.float32),
        "labels": value.labels.astype(np.int64),
        "rows": value.rows.astype(np.int64),
    }
    checksums = {name: _checksum(array) for name, array in arrays.items()}
    attributes = {**value.attributes, "checksums": {**checksums, "attributes": fingerprint(value.attributes)}}
    with needing():
        import zarr
    with replacing(path) as temporary:
        group: Any = zarr.create_group(store=str(temporary), zarr_format=3, attributes=attributes)
        for name, array in arrays.items():
            chunks = (min(ROWS_PER_CHUNK, max(1, n)), *array.shape[1:])
            shards = (max(1, -(-n // chunks[0])) * chunks[0], *array.shape[1:])
            dims = ("image", "feature")[: array.ndim]
            stored = group.create_array(
                name, shape=array.shape, dtype=array.dtype, chunks=chunks, shards=shards, dimension_names=dims
            )
            stored[...] = array


def read_features(
    path: str | Path, *, encoder: Mapping[str, Any] | None = None, of: tuple[str, str] | None = None
) -> ImageFeatures:
    """Read what `write_features` wrote.

    Args:
        path: the store.
        encoder: the id that the features must be of; None takes any.
        of: the dataset and its split that they must be of, as far as they say what they are of; None takes any.

    Raises:
        MissingError: no such store.
        MismatchError: a file in it is missing or damaged; or the features are of another encoder than `encoder`, or of
            another dataset or split, and the text names both.
    """
    if not Path(path).is_dir():
        raise MissingError(f"{path} does not exist; image features are made by stage 'embed': run `dvc repro`")
    again = "remove it and run `dvc repro` to make it again"
    with needing():
        import zarr
    try:
        group: Any = zarr.open_group(store=str(path), mode="r")
        attributes = dict(group.attrs)
        checksums = dict(attributes.pop("checksums"))
        arrays = {name: np.asarray(group[name][...]) for name in ("image_features", "labels", "rows")}
    except Exception as error:  # a damaged file may lead zarr into any
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise MismatchError(f"{path} cannot be read as image features ({reason}); {again}") from None
    actual = {name: _checksum(array) for name, array in arrays.items()} | {"attributes": fingerprint(attributes)}
    for name in sorted(actual):  # zarr reads a missing chunk as zeros
        if actual[name] != checksums.get(name):
            raise MismatchError(f"{path}: {name} not as written, a file in it is missing or damaged; {again}")
    if encoder is not None:
        check_encoder(attributes["encoder"], expected=encoder, where=path)
    if of is not None and (held := (attributes.get("dataset", of[0]), attributes.get("split", of[1]))) != of:
        said = f"holds the {held[1]} images of {held[0]}, expected the {of[1]} images of {of[0]}"
        raise MismatchError(f"{path} {said}; {again}")
    return ImageFeatures(arrays["image_features"], arrays["labels"], arrays["rows"], attributes)


def features_attributes(path: str | Path) -> dict[str, Any]:
    """The attributes alone of what `write_features` wrote; empty where there is none, or it cannot be read."""
    with needing():
        import zarr
    try:
        return dict(zarr.open_group(store=str(path), mode="r").attrs) if Path(path).is_dir() else {}
    except Exception:  # a damaged file may lead zarr into any; `read_features` says what is wrong
        return {}


def _checksum(array: np.ndarray) -> str:
    """SHA-256 of an array's shape, type and values."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def check_encoder(actual: Mapping[str, Any], *, expected: Mapping[str, Any], where: str | Path) -> None:
    """Raise MismatchError, naming both, unless the two encoder ids are equal."""
    if dict(actual) != dict(expected):
        differing = sorted(k for k in {*actual, *expected} if actual.get(k) != expected.get(k))
        pairs = ", ".join(f"{k}: {actual.get(k)!r} there, {expected.get(k)!r} wanted" for k in differing)
        raise MismatchError(f"{where} was made with another encoder ({pairs}); run `dvc repro` to make it again")


# ------------------------------------------------------------------------------------------------- arrays, hashes


def pack_arrays(arrays: Mapping[str, np.ndarray], *, about: dict[str, str] | None = None) -> bytes:
    """Named arrays as the bytes of a safetensors file, with what its header says about them."""
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata=about)


def unpack_arrays(payload: bytes, *, origin: str | Path) -> dict[str, np.ndarray]:
    """What `pack_arrays` made; MismatchError, naming `origin`, where it is something else."""
    try:
        return load(payload)
    except (SafetensorError, ValueError, KeyError) as error:
        raise MismatchError(f"{origin} holds no arrays ({error})") from None


def sha256_file(path: str | Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(value: Any) -> str:
    """Twenty hex digits that name a JSON value, for resume folders and cache keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:20]


def cache_dir() -> Path:
    """Where resume state lives: ``$WSOUP_CACHE`` or ``.cache/wsoup`` under the working folder."""
    return Path(os.environ.get("WSOUP_CACHE", ".cache/wsoup"))
