"""The table of device memory: what the searches take, which only encode, beside the training of each method."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.paper.tables import MEMORY
from wsoup.report.results import Results
from wsoup.report.tables import Table

NOT_MEASURED = "not measured on a CPU"


def memory_of_searches(artifacts: Artifacts, *, pools: Sequence[str], soups: Sequence[str]) -> dict[str, int | None]:
    """The highest device memory in MiB of scoring each pool and of searching each soup, None on a CPU, by its title."""
    files: dict[str, Path] = {}
    for pool in pools:
        files[f"scores of {pool}"] = artifacts.memory("score", pool)
    for name in soups:
        files[f"search of {name}"] = artifacts.memory("soup", name)
    # A pool that no soup uses is not scored.
    return {title: store.read_checked_object(path)["peak_device_mib"] for title, path in files.items() if path.exists()}


def memory_table(results: Results, *, searches: Mapping[str, int | None]) -> Table:
    """Peak memory of the device in every search, and in each method's training beside what the method stores."""
    rows: list[dict[str, object]] = []
    for title, mib in searches.items():
        rows.append({"method": title, "parameters": None, MEMORY: NOT_MEASURED if mib is None else mib})
    for method, mib in results.peak_device_mib.items():
        shown = NOT_MEASURED if mib is None else mib
        rows.append({"method": method, "parameters": results.parameters[method], MEMORY: shown})
    note = (
        "The highest memory that torch's tensors held on the device: in a search, and in training with the first seed."
    )
    return Table("memory", "Memory of searches and of training", ["method", "parameters", MEMORY], rows, [note])
