"""What `wsoup check` and `wsoup data layouts` print of datasets."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wsoup.check.data import Finding
from wsoup.datasets import coop, layouts, paper
from wsoup.datasets.listing import some


def show(findings: list[Finding], console: Console) -> None:
    """A table; then for every dataset its split source, whether it is paper-comparable and why; then every problem."""
    table = Table(box=None, pad_edge=False)
    for title in ("dataset", "role", "found"):
        table.add_column(title, no_wrap=True)
    for title in ("classes", "train", "test", "paper's"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("comparable", no_wrap=True)
    for finding in findings:
        table.add_row(finding.name, finding.role, *_cells(finding))
    console.print(table, highlight=False)
    console.print("")
    lines = []
    for finding in findings:
        if finding.split_source is not None:
            verdict = "paper-comparable" if finding.comparable else "not paper-comparable"
            why = f"; {verdict}: {finding.reason}" if finding.reason and not finding.own else ""
            lines.append(f"{finding.name}: split from {finding.split_source}{why}")
            if finding.class_names:
                lines.append(f"{finding.name}: classes {some(finding.class_names, limit=8)}")
    lines += [f"note: {finding.name}: {note}" for finding in findings for note in finding.notes]
    lines += [f"warning: {finding.name}: {warning}" for finding in findings for warning in finding.warnings]
    lines += [f"error: {finding.name}: {problem}" for finding in findings for problem in finding.problems]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _cells(finding: Finding) -> tuple[str, ...]:
    state = "no" if finding.split_source is None else "faulty" if finding.problems else "yes"
    counts = [f"{n:,}" if n else "" for n in (finding.n_classes, finding.n_train, finding.n_test, finding.expected)]
    if finding.n_train_listed > finding.n_train:
        counts[1] += f" of {finding.n_train_listed:,}"
    return state, *counts, "yes" if finding.comparable else "" if finding.own else "no"


def show_layouts(console: Console) -> None:
    """What is expected where: every layout, and the paper's 15 datasets in CoOp's folders."""
    for name, expects in layouts.LAYOUTS.items():
        console.print(f"{name:18} {expects}", highlight=False, markup=False, soft_wrap=True)
    console.print("\nUnder one data root, as in KaiyangZhou/CoOp, DATASETS.md:", highlight=False)
    table = Table(box=None, pad_edge=False)
    for title in ("layout", "images", "splits and class names"):
        table.add_column(title, overflow="fold")
    table.add_column("test images", justify="right")
    for name, images, splits in coop.expected():
        table.add_row(f"coop:{name}", escape(images), escape(splits), f"{paper.PAPER[name].n_test:,}")
    console.print(table, highlight=False)
