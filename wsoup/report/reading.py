"""Results as stages `evaluate` and `evaluate_tuned` wrote them; a file that is damaged, swapped or stale is named."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsoup.core.errors import MismatchError, WsoupError, one_line
from wsoup.disk import store

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
        MismatchError: columns, types or counts are not those of results; of another variant; of a dataset that
            params.yaml does not name; a line twice.
    """
    table = store.read_table(path)
    lines: list[dict[str, Any]] = table.to_pylist() if _typed(table) else []
    seen = set()
    for line in lines:
        found = _wrong(line, variant=variant, datasets=datasets)
        key = tuple(line[name] for name in KEY)
        if found or key in seen:
            raise _mismatch(path, found or f"a line of {line['method']} on {line['dataset']} stands there twice")
        seen.add(key)
    if not lines:
        raise _mismatch(path, "its columns and types are not those of results, or it has no lines")
    return lines


def _typed(table: pa.Table) -> bool:
    import pyarrow as pa

    schema = table.schema
    if not {*TEXT, *WHOLE, *NUMBERS, *MAY_LACK} <= set(schema.names) or len(set(schema.names)) < len(schema.names):
        return False
    kinds = {name: schema.field(name).type for name in schema.names}
    numbers = [kinds[name] for name in (*NUMBERS, *MAY_LACK)]
    return (
        all(pa.types.is_string(kinds[name]) for name in TEXT)
        and all(pa.types.is_integer(kinds[name]) for name in WHOLE)
        and all(pa.types.is_integer(k) or pa.types.is_floating(k) or pa.types.is_null(k) for k in numbers)
        and not any(table[name].null_count for name in (*TEXT, *WHOLE, *NUMBERS))
    )


def _wrong(line: dict[str, Any], *, variant: str, datasets: Collection[str]) -> str | None:
    if line["variant"] != variant:
        return f"it is of {line['variant']!r}, expected {variant!r}"
    if line["dataset"] not in datasets:
        return f"it has dataset {line['dataset']!r}, which params.yaml does not name"
    if not 0 <= line["n_correct"] <= line["n_images"] or not line["n_images"] or line["offsets"] < 1:
        return f"{line['n_correct']} of {line['n_images']} images are no count"
    return None


def attributes_of(path: Path, *keys: str) -> dict[str, Any]:
    """The attributes of a results file, which must have some keys; raises as `result_lines`."""
    found = store.table_attributes(path)
    if not set(keys) <= set(found):
        raise _mismatch(path, f"it does not say its {', '.join(sorted(set(keys) - set(found)))}")
    return found


def _mismatch(path: Path, what: str) -> MismatchError:
    return MismatchError(f"{path} is not as its stage wrote it: {one_line(what, limit=200)}; run `dvc repro`")


@contextmanager
def as_written() -> Iterator[None]:
    """Within, whatever a damaged file of a run leads into is one line; nobody can list what may stand in one."""
    try:
        yield
    except (WsoupError, OSError, ModuleNotFoundError):
        raise
    except Exception as error:
        *_, last = traceback.extract_tb(error.__traceback__)
        raise MismatchError(
            f"a file in artifacts/ or reports/ is not as its stage wrote it ({type(error).__name__}: "
            f"{one_line(error, limit=150)}, at {Path(last.filename).name}:{last.lineno}); run `dvc repro`; if it "
            "does not help this is a bug"
        ) from error
