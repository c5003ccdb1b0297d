"""The table of counts, which ``wsoup compare`` reads at two revisions: of every row, dataset and seed."""

from collections.abc import Mapping

from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.right import Right
from wsoup.report.results import Results
from wsoup.report.tables import HIDDEN, Table, TableCells

DIGITS = 16
"""Digits of the digest of a dataset's test images: enough to tell two sets apart."""


def counts(results: Results, *, together: Mapping[str, Right]) -> Table:
    """Counts behind the tables.

    Args:
        results: whose rows are counted.
        together: rows that no results file counts, from the images that they get right: row -> dataset -> (K, N).
    """
    # Sorted, so that git shows what a run changed and not how it was read.
    rows: list[TableCells] = []
    order = {name: place for place, name in enumerate(results.datasets())}
    for variant, row, cells in results.rows():
        in_order = sorted(cells.lines, key=lambda line: (order[line.dataset], line.seed))
        for line in in_order:
            where = _where(results, line.dataset, variant=variant, row=row.key, seed=line.seed)
            counted = _counted(results, line.dataset, n_correct=line.n_correct, n_images=line.n_images)
            rows.append({**where, **counted, **line.metrics})
    for name, by_dataset in together.items():
        for dataset, right in by_dataset.items():
            for seed, hits in zip(results.seeds, right, strict=True):
                where = _where(results, dataset, variant=PRETRAINED, row=name, seed=seed)
                n_correct = int(hits.sum())
                rows.append(where | _counted(results, dataset, n_correct=n_correct, n_images=len(hits)))
    # Only some rows may have an added metric, such as those of classifiers but not of heads.
    columns: dict[str, None] = {}
    for each in rows:
        columns |= dict.fromkeys(each)
    return Table(HIDDEN, "Counts behind the tables", columns=list(columns), rows=rows)


def _where(results: Results, dataset: str, *, variant: str, row: str, seed: int) -> dict[str, object]:
    """What was counted."""
    role = results.roles[dataset]
    return {"variant": variant, "row": row, "dataset": dataset, "role": role, "seed": seed}


def _counted(results: Results, dataset: str, *, n_correct: int, n_images: int) -> dict[str, object]:
    """The counts, and on which images."""
    images = str(results.facts[dataset].get("images", ""))
    return {"n_correct": n_correct, "n_images": n_images, "images": images[:DIGITS]}
