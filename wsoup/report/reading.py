"""Results as stages `evaluate` and `evaluate_tuned` wrote them; a file that is damaged, swapped or stale is named."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsoup.core.disk import store
from wsoup.core.errors import MismatchError, WsoupError, one_line

if TYPE_CHECKING:
    import pyarrow as pa

TEXT = ("method", "variant", "mode", "dataset")
WHOLE = ("offsets", "seed", "n_correct", "n_images")
NUMBERS = ("texts", "alignment", "uniformity")
MAY_LACK = ("m", "stored")
"""Columns of results by what they hold; the last ones hold numbers, or nothing."""
KEY = ("method", "mode", "m", "offsets", "seed", "dataset")
"""What there is one line of in each file."""


def result_lines(path: Path, *, variant: str, datasets: Collection[str]) -> list[dict[str, Any]]:
    """The lines of one results file.

    Args:
        path: the file.
        variant: whose it must be.
        datasets: names in params.yaml.

    Raises:
        MissingError: no such file.
        MismatchError: columns, types or counts are not those of results; another variant; a dataset that params.yaml
            does not name; a line twice.
    """
    table = store.read_table(path)
    lines: list[dict[str, Any]] = table.to_pylist() if _typed(table) else []
    if not lines:
        raise _mismatch(path, "its columns and types are not those of results, or it has no lines")
    seen = set()
    for line in lines:
        key = tuple(line[name] for name in KEY)
        fault = _fault(line, variant=variant, datasets=datasets)
        if fault is None and key in seen:
            fault = f"a line of {line['method']} on {line['dataset']} appears twice"
        if fault is not None:
            raise _mismatch(path, fault)
        seen.add(key)
    return lines


def _typed(table: pa.Table) -> bool:
    """Whether every column is there once, of its type and, but for those of `MAY_LACK`, full."""
    from pyarrow import types

    full = (*TEXT, *WHOLE, *NUMBERS)
    if any(table.schema.names.count(name) != 1 for name in (*full, *MAY_LACK)):
        return False

    def are(names: Sequence[str], *kinds: Callable[[pa.DataType], bool]) -> bool:
        return all(any(kind(table.schema.field(name).type) for kind in kinds) for name in names)

    numbers = are((*NUMBERS, *MAY_LACK), types.is_integer, types.is_floating, types.is_null)
    typed = are(TEXT, types.is_string) and are(WHOLE, types.is_integer) and numbers
    return typed and not any(table[name].null_count for name in full)


def _fault(line: dict[str, Any], *, variant: str, datasets: Collection[str]) -> str | None:
    if line["variant"] != variant:
        return f"it is of {line['variant']!r}, expected {variant!r}"
    if line["dataset"] not in datasets:
        return f"it has dataset {line['dataset']!r}, which params.yaml does not name"
    if not 0 <= line["n_correct"] <= line["n_images"] or not line["n_images"] or line["offsets"] < 1:
        return f"{line['n_correct']} of {line['n_images']} images is not a count"
    return None


def attributes_of(path: Path, *keys: str) -> dict[str, Any]:
    """The attributes of a results file, which must have some keys; raises as `result_lines`."""
    attributes = store.table_attributes(path)
    if lacking := sorted(set(keys) - set(attributes)):
        raise _mismatch(path, f"it does not say its {', '.join(lacking)}")
    return attributes


def _mismatch(path: Path, what: str) -> MismatchError:
    return MismatchError(f"{path} is not as its stage wrote it: {one_line(what, limit=200)}; run `dvc repro`")


@contextmanager
def as_written() -> Iterator[None]:
    """Makes one line of whatever error a damaged file of a run leads to; nobody can list all that may be in one."""
    try:
        yield
    except (WsoupError, OSError, ModuleNotFoundError):
        raise
    except Exception as error:
        *_, last = traceback.extract_tb(error.__traceback__)
        raise MismatchError(
            f"a file in artifacts/ or reports/ is not as its stage wrote it ({type(error).__name__}: "
            f"{one_line(error, limit=150)}, at {Path(last.filename).name}:{last.lineno}); run `dvc repro`; if that "
            "does not help, this is a bug"
        ) from error
