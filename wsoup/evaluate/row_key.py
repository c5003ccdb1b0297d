"""What a row of results is called from counting to tables and `wsoup compare`, and the file that it is counted in.

The report imports this module, so it must not import torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from wsoup.core.modes import JudgedMode
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.rows import CLASS_NAME, judged_mode, row_name


class RowKey(NamedTuple):
    """A row of a run.

    Attributes:
        variant: ``pretrained``, or the name of a finetuned method or a head.
        row: its name in tables and metrics.json, such as ``word_soup_score_mean``.
    """

    variant: str
    row: str


def row_in_mode(method: str, mode: str) -> str:
    """The name in tables of what results files have as a method and a mode.

    >>> row_in_mode("word_soup", "centroid"), row_in_mode("word_soup", "score_mean")
    ('word_soup', 'word_soup_score_mean')
    """
    return method if mode == "centroid" else f"{method}_{mode}"


def judged_row(soup: str, *, mode: JudgedMode) -> str:
    """The row of a soup in the mode in which it is judged, given ``report.mode``.

    >>> judged_row("word", mode="paper"), judged_row("descriptor", mode="paper"), judged_row("class_name", mode="paper")
    ('word_soup_score_mean', 'descriptor_soup', 'class_name')
    """
    # One text is its own mean.
    if soup == CLASS_NAME.name:
        return row_name(soup)
    return row_in_mode(row_name(soup), judged_mode(soup, mode=mode))


def files_of_counts(results: Path, *, methods: Iterable[str], heads: Iterable[str]) -> dict[str, Path]:
    """Variant -> the file of its counts, the pretrained model's first.

    Args:
        results: the folder of a run's results.
        methods, heads: names of finetuned methods and of heads.
    """
    return {PRETRAINED: results / PRETRAINED / "results.parquet"} | _files_of_trained(results, methods, heads)


def files_of_right(results: Path, *, methods: Iterable[str], heads: Iterable[str]) -> dict[str, Path]:
    """Variant -> the file of the images that its rows get right (`wsoup.evaluate.right`); as `files_of_counts`."""
    return {PRETRAINED: results / PRETRAINED / "right.parquet"} | _files_of_trained(results, methods, heads)


def file_of_method(results: Path, method: str) -> Path:
    """The results of a finetuned method: counts, and right images of the judged rows."""
    return results / f"{method}.parquet"


def file_of_head(results: Path, head: str) -> Path:
    """The results of a head: counts, and right images."""
    return results / "heads" / f"{head}.parquet"


def _files_of_trained(results: Path, methods: Iterable[str], heads: Iterable[str]) -> dict[str, Path]:
    of_methods = {name: file_of_method(results, name) for name in methods}
    return of_methods | {name: file_of_head(results, name) for name in heads}
