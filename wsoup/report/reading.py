"""Read results as stages `evaluate`, `evaluate_tuned` and `head` wrote them.

A file that is damaged, swapped or stale raises an error with its name.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsoup.base.errors import MismatchError, WsoupError, one_line
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.params import EvaluateParams
from wsoup.paper.settings import Settings
from wsoup.params.inputs import DatasetParams
from wsoup.report.labels import table
from wsoup.report.results import Results

if TYPE_CHECKING:
    import pyarrow as pa

STRINGS = ("method", "variant", "mode", "dataset")
INTEGERS = ("offsets", "seed", "n_correct", "n_images")
NUMBERS = ("texts", "alignment", "uniformity")
NULLABLE = ("m", "stored")
"""Columns of results by type; the last ones are numbers or null."""
KEY = ("method", "mode", "m", "offsets", "seed", "dataset")
"""Columns that are unique together in each file."""


def load_results(
    folder: Path,
    *,
    datasets: Mapping[str, DatasetParams],
    soups: Sequence[str],
    methods: Collection[str],
    heads: Collection[str],
    evaluate: EvaluateParams,
    sections: Mapping[str, object],
) -> Results:
    """Read ``pretrained/results.parquet`` and, where they exist, ``<method>.parquet`` and ``heads/<head>.parquet``.

    Args:
        folder: of results.
        datasets, evaluate: sections of params.yaml.
        soups, methods, heads: names in params.yaml.
        sections: all of params.yaml as JSON values, to compare with the paper's settings.
    """
    pretrained = store.require(folder / PRETRAINED / "results.parquet", made_by="evaluate")
    attributes = attributes_of(pretrained, "datasets", "encoder")
    lines = result_lines(pretrained, variant=PRETRAINED, datasets=datasets)
    parameters: dict[str, int] = {}
    divergence: dict[str, dict[int, list[float]]] = {}
    training: dict[str, list[list[object]]] = {}
    for method in (*methods, *heads):
        path = (folder / "heads" if method in heads else folder) / f"{method}.parquet"
        if path.exists():
            lines += result_lines(path, variant=method, datasets=datasets)
            about = attributes_of(path, "parameters", "members_kl")
            parameters[method] = about["parameters"]
            if about.get("training"):
                training[method] = about["training"]
            for iteration, value in chain.from_iterable(about["members_kl"]):
                divergence.setdefault(method, {}).setdefault(iteration, []).append(value)
    return Results(
        lines,
        table=table(soups),
        roles={name: dataset.role for name, dataset in datasets.items()},
        evaluate=evaluate,
        facts=attributes["datasets"],
        encoder=attributes["encoder"],
        parameters=parameters,
        divergence=divergence,
        training=training,
        heads=heads,
        settings=Settings.of_run(sections, pools=attributes.get("pools", {})),
    )


def result_lines(path: Path, *, variant: str, datasets: Collection[str]) -> list[dict[str, object]]:
    """The lines of one results file.

    Args:
        path: the file.
        variant: expected in every line.
        datasets: names in params.yaml.

    Raises:
        MissingError: no such file.
        MismatchError: wrong columns, types or counts; another variant; a dataset that params.yaml does not name; a
            duplicate line.
    """
    results = store.read_table(path)
    lines: list[dict[str, Any]] = results.to_pylist() if _has_result_columns(results) else []
    if not lines:
        raise _mismatch(path, "its columns and types are not those of results, or it has no lines")
    keys = set()
    for line in lines:
        key = tuple(line[name] for name in KEY)
        if line["variant"] != variant:
            raise _mismatch(path, f"it is of {line['variant']!r}, expected {variant!r}")
        if line["dataset"] not in datasets:
            raise _mismatch(path, f"it has dataset {line['dataset']!r}, which params.yaml does not name")
        if not 0 <= line["n_correct"] <= line["n_images"] or not line["n_images"] or line["offsets"] < 1:
            raise _mismatch(path, f"{line['n_correct']} of {line['n_images']} images is not a count")
        if key in keys:
            raise _mismatch(path, f"a line of {line['method']} on {line['dataset']} appears twice")
        keys.add(key)
    return lines


def _has_result_columns(results: pa.Table) -> bool:
    """Whether every column is there once, of its type and, except for `NULLABLE` ones, without nulls."""
    from pyarrow import types

    numeric = (types.is_integer, types.is_floating, types.is_null)
    kinds: dict[str, tuple[Any, ...]] = {
        **dict.fromkeys(STRINGS, (types.is_string,)),
        **dict.fromkeys(INTEGERS, (types.is_integer,)),
        **dict.fromkeys((*NUMBERS, *NULLABLE), numeric),
    }
    return all(
        results.schema.names.count(name) == 1
        and any(is_kind(results.schema.field(name).type) for is_kind in allowed)
        and (name in NULLABLE or not results[name].null_count)
        for name, allowed in kinds.items()
    )


def attributes_of(path: Path, *keys: str) -> dict[str, Any]:
    """The attributes of a results file, which must have some keys; raises as `result_lines`."""
    attributes = store.table_attributes(path)
    if missing := sorted(set(keys) - set(attributes)):
        raise _mismatch(path, f"it does not say its {', '.join(missing)}")
    return attributes


def _mismatch(path: Path, reason: str) -> MismatchError:
    return MismatchError(f"{path} is not as its stage wrote it: {one_line(reason, limit=200)}; run `dvc repro`")


@contextmanager
def as_written() -> Iterator[None]:
    """Turn any error that a damaged file of a run may cause into one line; nobody can list them all."""
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
