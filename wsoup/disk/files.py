"""Paths of the files that stages hand to each other, as in dvc.yaml, and reading and naming users' own files safely.

Stages run in the folder of params.yaml, and all paths of artifacts are relative to it. Of users' files only regular
ones are opened: a FIFO would block for ever, and ``/dev/zero`` has no end.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsoup.base import remote
from wsoup.base.errors import DataError, MissingError, WsoupError, one_line
from wsoup.disk import tar_files

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST_FILE = 1 << 30
"""Bytes. No image is larger; a larger file (a sparse one, say) would fill the memory."""

MOST_UNPACKED = 8
"""Bytes in memory for each byte of an Arrow file; `save_to_disk` does not compress."""

FORMULAS = (*"=+-@\t\r\n", *"＝＋－＠")
"""Characters that start a formula in a spreadsheet, also in full width; after an apostrophe they are text."""

NO_TEXTS = {
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"PK\x03\x04": "an Excel or zip file",
    b"\xd0\xcf\x11\xe0": "an old Excel file",
    b"\x1f\x8b": "a gzip file",
    b"PAR1": "a Parquet file",
}
"""What is no UTF-8, by its first bytes."""
CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters but for line breaks and tabs, and those that turn text round, hide it or break its lines."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
PRETRAINED = "pretrained"
"""The variant of image features and results without training."""


def shown(path: str) -> str:
    r"""A path or text in a one-line message.

    >>> print(shown("a/1.jpg"), shown("two\nlines.jpg"))
    a/1.jpg two\nlines.jpg
    """
    return path if path.isprintable() else repr(path)[1:-1]


def tamed(text: str) -> str:
    r"""A text for a file: what a terminal would obey or turn round is escaped, but line breaks and tabs are kept.

    >>> print(tamed("\x1b[31mred\x07\r"), tamed("a\u202eb"), tamed("Größe"))
    \x1b[31mred\x07\r a\u202eb Größe
    """
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def defused(text: str) -> str:
    """A cell of a CSV file that no spreadsheet takes for a formula.

    >>> print(defused("=1+2"), defused("has claws"))
    '=1+2 has claws
    """
    return f"'{text}" if text.startswith(FORMULAS) else text


def defused_path(path: str) -> str:
    """The same for a path, which stays valid.

    >>> print(defused_path("=1.jpg"), defused_path("a/=1.jpg"))
    ./=1.jpg a/=1.jpg
    """
    return f"./{path}" if path.startswith(FORMULAS) else path


def regular_file(path: str) -> os.stat_result:
    """The status of a file, links followed.

    Raises:
        MissingError: there is no such file.
        DataError: it is a folder, a FIFO, a socket, a device or a broken link, or it cannot be accessed.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        # `stat` follows a link, and so speaks of where it leads.
        if os.path.islink(path):
            raise DataError(f"{shown(path)} is a broken symbolic link; repair or remove it") from None
        raise MissingError(f"{shown(path)} does not exist") from None
    except (OSError, ValueError) as error:  # ValueError: it holds a NUL
        raise DataError(f"{shown(path)} cannot be read ({reason_of(error)}); repair or remove it") from None
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "not a regular file")
        raise DataError(f"{shown(path)} is {kind}, expected a file; rename or remove it")
    return status


def reason_of(error: BaseException) -> str:
    """An error's message in one line, or its type if it has none."""
    return one_line(getattr(error, "strerror", None) or error, limit=300) or type(error).__name__


def read_text(path: str | Path, *, kind: type[WsoupError] = DataError, largest: int = LARGEST_FILE) -> str:
    r"""The text of a UTF-8 file, with or without a byte order mark; all line ends become ``\n``.

    Raises:
        MissingError: there is no such file.
        DataError: as `read_file`.
        kind: it is not UTF-8 (with the byte that is not).
    """
    data = read_file(str(path), largest=largest)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what = next((f" (it begins as {what} does)" for sign, what in NO_TEXTS.items() if data.startswith(sign)), "")
        raise kind(f"{shown(str(path))} is not UTF-8 text (byte {error.start}); save it as UTF-8{what}") from None
    # Or each word of a list from Windows would end in a carriage return.
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_file(path: str, *, largest: int = LARGEST_FILE) -> bytes:
    """The bytes of a file, or at a URL.

    Raises:
        MissingError: there is no such file.
        DataError: not a regular file, unreadable, or larger than `largest` bytes.
    """
    if remote.is_remote(path):
        return remote.read(path, largest=largest)
    size = regular_file(path).st_size
    # Before reading: a sparse file of a terabyte takes no place on the disk, and all memory.
    if size > largest:
        raise DataError(f"{shown(path)} has {size:,} bytes, more than {largest:,}; is it the right file?")
    try:
        return Path(path).read_bytes()
    except (OSError, MemoryError, OverflowError) as error:
        raise DataError(f"{shown(path)} cannot be read ({reason_of(error)}); repair or remove it") from None


def container_of(path: str) -> str | None:
    """The Arrow, Parquet or tar file that `path` leads into, ``test/0.arrow/image/12``, or None.

    A folder with such a name is a folder like any other.
    """
    for suffix in (".arrow", ".parquet", ".tar"):
        head, inside, _ = path.rpartition(f"{suffix}/")
        if inside and os.path.isfile(head + suffix):
            return head + suffix
    return None


def read_bytes(path: str) -> bytes:
    """The bytes of a file, or of an image in an Arrow, Parquet or tar file (see `container_of`); a path may be a URL.

    Raises:
        MissingError: there is no such file.
        DataError: not a regular file, unreadable or larger than `LARGEST_FILE`; the container is broken or has no such
            image.
    """
    container = None if remote.is_remote(path) else container_of(path)
    if container is None:
        return read_file(path)
    cell = path[len(container) + 1 :]
    column, _, row = cell.rpartition("/")
    held = None
    if container.endswith(".tar"):
        held = _in_tar(container, place=cell)
    elif row.isascii() and row.isdecimal() and len(row) < 19:
        held = _held(container, column=column, row=int(row))
    if held is None:
        raise DataError(
            f"{shown(container)} has no image {one_line(cell, limit=80)!r}; run `dvc repro prepare` to list it again"
        )
    return held


def _in_tar(container: str, *, place: str) -> bytes | None:
    regular_file(container)
    try:
        return tar_files.held(container, place=place, largest=LARGEST_FILE)
    except OSError as error:
        raise DataError(f"{shown(container)} cannot be read ({reason_of(error)}); repair or remove it") from None


def _held(container: str, *, column: str, row: int) -> bytes | None:
    """The bytes of an image in a container; None if it has no such image."""
    if container.endswith(".parquet"):
        # Imported here, since few need it, and it needs pyarrow.
        from wsoup.disk.parquet_images import picture

        return picture(container, column=column, row=row)
    table = arrow_table(container)
    has_column = table.column_names.count(column) == 1  # Arrow allows two of one name
    if has_column and row < table.num_rows:
        value = table[column][row].as_py()
        if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
            return value["bytes"]
    return None


def arrow_table(file: str) -> pa.Table:
    """A memory-mapped Arrow stream file as a table.

    Raises:
        MissingError: there is no such file.
        DataError: truncated, damaged, or no Arrow stream.
    """
    return _mapped(file, regular_file(file).st_mtime_ns)


@lru_cache(maxsize=64)
def _mapped(file: str, mtime_ns: int) -> pa.Table:
    """`mtime_ns` makes a changed file a new cache entry."""
    import pyarrow as pa

    try:
        mapped = pa.memory_map(file)
        batches = []
        size = 0
        with pa.ipc.open_stream(mapped) as reader:
            for batch in reader:
                size += batch.nbytes
                # Mapped batches take no memory, but a few compressed kilobytes can stand for gigabytes.
                if size > MOST_UNPACKED * mapped.size():
                    raise ValueError(f"it unpacks to more than {MOST_UNPACKED} times its {mapped.size():,} bytes")
                batches.append(batch)
            table = pa.Table.from_batches(batches, schema=reader.schema)
        table.validate(full=True)  # offsets beyond the file would read other memory
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        raise DataError(
            f"{shown(file)} is not a complete Arrow stream file ({reason_of(error)}); save or download it again"
        ) from None
    return table


# ------------------------------------------------------------------------------------------------ paths of a run


@dataclass(frozen=True)
class Artifacts:
    """Paths of one run.

    Attributes:
        root: the run's folder.
    """

    root: Path = Path()

    @property
    def folder(self) -> Path:
        return self.root / "artifacts"

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    def manifest(self, dataset: str) -> Path:
        """The manifest of one dataset: the images that a run uses."""
        return self.folder / "manifests" / f"{dataset}.parquet"

    def split(self, source: str, *, seed: int) -> Path:
        """The few-shot training images of one seed."""
        return self.folder / "splits" / source / f"seed{seed}.parquet"

    def features(self, dataset: str, *, split: str) -> Path:
        """Image features of the pretrained encoder; `split` is train or test."""
        return self.folder / "embeddings" / PRETRAINED / f"{dataset}-{split}.zarr"

    @property
    def pools(self) -> Path:
        """The folder of all pools."""
        return self.folder / "pools"

    def pool(self, name: str) -> Path:
        """A pool of candidates, one bare text a line."""
        return self.pools / f"{name}.txt"

    @property
    def templates(self) -> Path:
        """Lists of prompt templates to evaluate."""
        return self.folder / "templates.json"

    @property
    def evaluated(self) -> Path:
        """The datasets and soups to evaluate, and each dataset's GPT descriptors by its own class names."""
        return self.folder / "evaluated.json"

    def scores(self, pool: str) -> Path:
        """Scores of every candidate in a pool."""
        return self.folder / "scores" / f"{pool}.parquet"

    def soups(self, name: str) -> Path:
        """The folder of one soup's seeds."""
        return self.folder / "soups" / name

    def soup(self, name: str, *, seed: int) -> Path:
        """One soup file."""
        return self.soups(name) / f"seed{seed}.json"

    @property
    def upper_bound(self) -> Path:
        """The soup selected on the targets themselves."""
        return self.folder / "soups" / "upper_bound.json"

    def tuned(self, method: str, *, seed: int) -> Path:
        """The folder of one finetuned model."""
        finetuned = self.folder / "finetuned"
        return finetuned / method / f"seed{seed}"

    def head(self, name: str, *, seed: int) -> Path:
        """One head file."""
        return self.folder / "heads" / name / f"seed{seed}.safetensors"

    def memory(self, stage: str, name: str) -> Path:
        """The highest device memory of scoring a pool or of searching a soup."""
        return self.folder / "memory" / stage / f"{name}.json"

    @property
    def results(self) -> Path:
        """The folder of results (counts)."""
        return self.folder / "results"

    @property
    def survey(self) -> Path:
        """Counts of texts that were not selected."""
        return self.folder / "survey"


def evaluated_soups(soups: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """Section soups of params.yaml as `Artifacts.evaluated` lists it: name and pool of every soup, in params' order."""
    return [{"name": name, "pool": soup["pool"]} for name, soup in soups.items()]
