"""Lines of counts as stages wrote them; a file that is damaged, swapped or stale raises an error with its name."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pydantic
from pydantic import Field

from wsoup.base.errors import MismatchError, one_line
from wsoup.base.validation import in_file
from wsoup.disk import store


class Line(pydantic.BaseModel):
    """One line of a file of results: one classifier with one seed on one dataset.

    Attributes:
        method, mode: the row's texts, and centroid or score_mean.
        variant: pretrained, a finetuned method or a head.
        m: number of members; None if it differs by class.
        offsets: number of token offsets of each member.
        texts: mean number of texts per class, the paper's column m.
        stored: integers that the texts take to store; None where that does not apply.
        seed, dataset: of the counts.
        n_correct, n_images: counts.
        alignment, uniformity: mean cosines.
        text: of a text that is evaluated alone.
        metrics: numbers in columns that have none of these names, by column: calibration, and what somebody has added.
    """

    model_config = pydantic.ConfigDict(frozen=True, strict=True)

    method: str
    variant: str
    mode: str
    m: int | None
    offsets: Annotated[int, Field(ge=1)]
    texts: float
    stored: float | None
    seed: int
    dataset: str
    n_correct: Annotated[int, Field(ge=0)]
    n_images: Annotated[int, Field(ge=1)]
    alignment: float
    uniformity: float
    text: str | None = None
    metrics: Mapping[str, float] = Field(default_factory=dict)

    @property
    def key(self) -> tuple[str | int | None, ...]:
        """What no two lines of a file share."""
        return self.method, self.mode, self.m, self.offsets, self.seed, self.dataset, self.text

    @property
    def accuracy(self) -> float:
        """Per cent."""
        return 100.0 * self.n_correct / self.n_images


LINES = pydantic.TypeAdapter(Annotated[list[Line], Field(min_length=1)])


def read_lines(path: Path, *, variant: str, datasets: Collection[str]) -> list[Line]:
    """The lines of one results file, which are of one variant and of datasets that params.yaml names, each once.

    Raises:
        MissingError: no such file.
        MismatchError: wrong columns, types or counts; another variant or dataset; a duplicate line; no line.
    """
    table = store.read_table(path)
    added = _added_metrics(table.schema)
    rows = []
    for row in table.to_pylist():
        # A row of another kind may lack a metric.
        metrics = {name: row[name] for name in added if row[name] is not None}
        rows.append(row | {"metrics": metrics})
    try:
        lines = LINES.validate_python(rows)
    except pydantic.ValidationError as error:
        raise _mismatch(path, in_file(error)) from None
    # Pydantic has checked types; these are what a swapped or doubled file would get wrong.
    known = set()
    for line in lines:
        if line.variant != variant or line.dataset not in datasets or line.n_correct > line.n_images:
            raise _mismatch(path, f"no count of {variant!r} on a dataset of params.yaml: {line!r}")
        if line.key in known:
            raise _mismatch(path, f"twice there: {line!r}")
        known.add(line.key)
    return lines


def _added_metrics(schema: pa.Schema) -> list[str]:
    """Columns of numbers that `Line` does not name."""
    added = []
    for column in schema:
        is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if is_number and column.name not in Line.model_fields:
            added.append(column.name)
    return added


def _mismatch(path: Path, reason: str) -> MismatchError:
    shown = one_line(reason, limit=200)
    return MismatchError(f"{path} is not as its stage wrote it: {shown}; run `dvc repro`")
