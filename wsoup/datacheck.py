"""Look over every dataset of params.yaml before anything runs: what `wsoup data check` and `wsoup data layouts` show.

Nothing is written but the digest cache. Every finding ends with the next step.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wsoup import store
from wsoup.datasets import coop, digests, layouts, manifest, paper
from wsoup.datasets.listing import Listing, problems, some
from wsoup.errors import DataError, WsoupError
from wsoup.files import container_of
from wsoup.params.datasets import DatasetParams
from wsoup.params.whole import Params
from wsoup.search import gpt

Decode = Callable[[str], object]


@dataclass
class Finding:
    """What was found of one dataset.

    Attributes:
        name, role: as in params.
        split_source: the file or folder that says which image is in which split; None where nothing was found.
        n_classes, n_train, n_test: counts; n_train is the few-shot training images of all seeds.
        expected: test images of the paper, or None.
        comparable, reason: whether results stand beside the paper's, and why (not).
        problems: one sentence each, with the next step.
    """

    name: str
    role: str
    split_source: str | None = None
    n_classes: int = 0
    n_train: int = 0
    n_test: int = 0
    expected: int | None = None
    comparable: bool = False
    reason: str = ""
    problems: list[str] = field(default_factory=list)


def check(
    params: Params, *, manifests: Path, decode: Decode | None, imagenet_names: Callable[[], list[str]]
) -> list[Finding]:
    """Look over all datasets, in the order of params.

    Args:
        params: all of params.yaml.
        manifests: folder of the manifests of the last run; images that changed since are found out.
        decode: decodes one image file or raises DataError (``--deep``); None only looks at sizes.
        imagenet_names: ImageNet's class names, called only where a layout needs them.
    """
    findings = []
    for name, dataset in params.datasets.items():
        finding = Finding(name, dataset.role)
        try:
            listing = layouts.listing(name, params=dataset, imagenet_names=imagenet_names)
            finding.split_source = listing.origin
            finding.problems += problems(listing)
            if not finding.problems:
                _look_at_images(finding, listing, params=params, manifests=manifests, decode=decode)
        except WsoupError as error:
            finding.problems.append(str(error))
        if not os.path.exists(dataset.watch):
            finding.problems.append(f"watch: {dataset.watch} does not exist; name what `dvc repro` is to watch")
        findings.append(finding)
    return findings


def _look_at_images(
    finding: Finding, listing: Listing, *, params: Params, manifests: Path, decode: Decode | None
) -> None:
    dataset = params.datasets[finding.name]
    table, names = manifest.select(listing, params=dataset, shots=params.fewshot.shots, seeds=list(params.seeds))
    finding.n_classes = len(names)
    finding.n_test = pc.sum(pc.equal(table["split"], "test")).as_py()
    finding.n_train = table.num_rows - finding.n_test
    finding.comparable, finding.reason = _comparable(finding, dataset=dataset)
    finding.expected = paper.expected_n_test(dataset.layout, dataset=finding.name)
    paths = table["path"].to_pylist()
    if listing.fetch is None:
        finding.problems += _files(listing, paths=paths, decode=decode)
    if not finding.problems:
        finding.problems += _changes(listing, paths=paths, path=manifests / f"{finding.name}.parquet")
    if dataset.gpt_descriptors is not None:
        gpt.matched(gpt.read(dataset.gpt_descriptors), class_names=names, origin=dataset.gpt_descriptors)


def _comparable(finding: Finding, *, dataset: DatasetParams) -> tuple[bool, str]:
    return paper.comparable(
        dataset.layout,
        dataset=finding.name,
        template=dataset.template,
        classes=dataset.classes,
        test_split=dataset.test_split,
        n_test=finding.n_test,
        n_classes=finding.n_classes,
    )


def _files(listing: Listing, *, paths: list[str], decode: Decode | None) -> list[str]:
    """Images that are missing, empty, or (where `decode` is given) unreadable."""
    lost, empty = [], []
    for path in paths:
        try:
            if os.stat(f"{listing.root}/{container_of(path) or path}").st_size == 0:
                empty.append(path)
        except OSError:
            lost.append(path)
    found = []
    if lost:
        found.append(
            f"{len(lost):,} of {len(paths):,} images listed in {listing.origin} do not exist: {some(lost)}; "
            "unpack the dataset again"
        )
    if empty:
        found.append(f"{len(empty):,} images are empty (0 bytes): {some(empty)}; replace or remove them")
    if decode is not None and not found:
        bad = _undecodable(listing, paths=paths, decode=decode)
        found += bad[:5]
        if len(bad) > 5:
            found.append(f"... and {len(bad) - 5:,} more images cannot be decoded")
    return found


def _undecodable(listing: Listing, *, paths: list[str], decode: Decode) -> list[str]:
    def reason(path: str) -> str | None:
        try:
            decode(f"{listing.root}/{path}")
        except DataError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [text for text in pool.map(reason, paths) if text is not None]


def _changes(listing: Listing, *, paths: list[str], path: Path) -> list[str]:
    """How the images differ from those in the manifest of the last run, if there was one."""
    if not path.is_file():
        return []
    before = store.read_table(path, columns=["path", "digest"])
    if listing.fetch is not None:
        listing.fetch(paths)
    now = pa.table({"path": paths, "digest": digests.of_images(listing.root, paths, origin=listing.origin).hexes})
    old, new = (dict(zip(t["path"].to_pylist(), t["digest"].to_pylist(), strict=True)) for t in (before, now))
    changed = sum(digest != old[name] for name, digest in new.items() if name in old)
    counts = {"changed": changed, "added": len(new.keys() - old.keys()), "removed": len(old.keys() - new.keys())}
    if not any(counts.values()):
        return []
    said = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return [
        f"images of this run differ from {path}: {said}; run `dvc repro --force --single-item prepare@{path.stem}`, "
        "then `dvc repro`"
    ]


# ---------------------------------------------------------------------------------------------------------- showing


def show(findings: list[Finding], console: Console) -> None:
    """A table; then for every dataset its split source, whether it is paper-comparable and why; then every problem."""
    table = Table(box=None, pad_edge=False)
    for title in ("dataset", "role", "found"):
        table.add_column(title, no_wrap=True)
    for title in ("classes", "train", "test", "paper's"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("comparable", no_wrap=True)
    for finding in findings:
        found = "no" if finding.split_source is None else "yes" if not finding.problems else "faulty"
        counts = [f"{n:,}" if n else "" for n in (finding.n_classes, finding.n_train, finding.n_test, finding.expected)]
        table.add_row(finding.name, finding.role, found, *counts, "yes" if finding.comparable else "no")
    console.print(table, highlight=False)
    console.print("")
    for finding in findings:
        if finding.split_source is not None:
            verdict = "paper-comparable" if finding.comparable else "not paper-comparable"
            says = f"; {verdict}: {finding.reason}" if finding.reason else ""
            _line(f"{finding.name}: split from {finding.split_source}{says}", console=console)
    for finding in findings:
        for problem in finding.problems:
            _line(f"error: {finding.name}: {problem}", console=console)


def _line(text: str, *, console: Console) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


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
