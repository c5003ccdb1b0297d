"""Look over every dataset of params.yaml before anything runs: what `wsoup data check` and `wsoup data layouts` show.

Nothing is written but the digest cache. Every finding ends with the next step.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wsoup.check.whole import Params
from wsoup.core.errors import DataError, MissingError, WsoupError
from wsoup.datasets import coop, digests, layouts, manifest, paper
from wsoup.datasets.listing import Listing, problems, some
from wsoup.disk import remote, store
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.files import file_size
from wsoup.images.versions import differing
from wsoup.params.base.datasets import DatasetParams
from wsoup.search.rank import gpt

Decode = Callable[[str], object]


@dataclass
class Finding:
    """What was found of one dataset.

    Attributes:
        name, role: as in params.
        split_source: the file or folder that says which image is in which split; None where nothing was found.
        class_names: in label order.
        n_classes, n_train, n_test: counts; n_train is the few-shot training images of all seeds.
        n_train_listed: all training images, of which those are drawn.
        own: it is none of the paper's datasets, and nobody asks whether it is comparable.
        expected: test images of the paper, or None.
        comparable, reason: whether results stand beside the paper's, and why (not).
        problems: one sentence each, with the next step.
        warnings: the same, of what a run accepts but is seldom meant.
        notes: what is good to know.
    """

    name: str
    role: str
    split_source: str | None = None
    n_classes: int = 0
    n_train: int = 0
    n_train_listed: int = 0
    n_test: int = 0
    expected: int | None = None
    comparable: bool = False
    reason: str = ""
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    class_names: list[str] = field(default_factory=list)
    own: bool = False


def check(
    params: Params,
    *,
    manifests: Path,
    decode: Decode | None,
    imagenet_names: Callable[[], list[str]],
    artifacts: Artifacts | None = None,
) -> list[Finding]:
    """Look over all datasets, in the order of params.

    Args:
        params: all of params.yaml.
        manifests: folder of the manifests of the last run; images that changed since are found out.
        decode: decodes one image file or raises DataError (``--deep``); None only looks at sizes.
        imagenet_names: ImageNet's class names, called only where a layout needs them.
        artifacts: of the last run, whose image features are looked at; None is the run of the working folder.
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
    _look_at_features({finding.name: finding for finding in findings}, artifacts=artifacts or Artifacts())
    return findings


def _look_at_features(findings: dict[str, Finding], *, artifacts: Artifacts) -> None:
    """Warn of features of the last run that other versions of packages made than those of other datasets."""
    made_with = {}
    for name in findings:
        for split in ("train", "test"):
            attributes = store.features_attributes(artifacts.features(name, split=split))
            made_with[name, split] = attributes.get("made_with", {})
    for (name, split), sentence in differing(made_with).items():
        stage = f"embed@{name}" if split == "test" else "embed_train"
        findings[name].warnings.append(
            f"{split} features {sentence}; make them again: `dvc repro --force --single-item {stage}`, then `dvc repro`"
        )


def _look_at_images(
    finding: Finding, listing: Listing, *, params: Params, manifests: Path, decode: Decode | None
) -> None:
    dataset = params.datasets[finding.name]
    table, names = manifest.select(listing, params=dataset, shots=params.fewshot.shots, seeds=list(params.seeds))
    finding.n_classes, finding.class_names = len(names), names
    finding.own = not dataset.layout.startswith("coop")
    finding.n_test = pc.sum(pc.equal(table["split"], "test")).as_py()
    finding.n_train = table.num_rows - finding.n_test
    if finding.n_train:
        finding.n_train_listed = len(listing.split("train").labels)
    finding.comparable, finding.reason = _comparable(finding, dataset=dataset)
    finding.expected = paper.expected_n_test(dataset.layout, dataset=finding.name)
    finding.warnings += _alike(names)
    if finding.own:
        finding.warnings += _no_words(names, dataset=finding.name)
    paths = table["path"].to_pylist()
    if listing.fetch is None:
        finding.problems += _files(listing, paths=paths, decode=decode)
    before = manifests / f"{finding.name}.parquet"
    # Digests need every image read once; after a run the digest cache has them.
    if not finding.problems and (decode is not None or before.is_file()):
        if listing.fetch is not None:
            listing.fetch(paths)
        hexes = digests.of_images(listing.root, paths, origin=listing.origin).hexes
        finding.warnings += _twice(table, hexes=hexes)
        changes = _changes(dict(zip(paths, hexes, strict=True)), path=before)
        if changes and _watched(dataset):
            finding.notes.append(f"{changes}; `dvc repro` picks that up")
        elif changes:
            again = f"`dvc repro --force --single-item prepare@{finding.name}`, then `dvc repro`"
            finding.problems.append(f"{changes}; run {again}")
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
    lost, empty, odd = [], [], []
    for path in paths:
        try:
            file = remote.joined(listing.root, path)
            if file_size(file) == 0:
                empty.append(path)
        except MissingError:
            lost.append(path)
        except DataError as error:
            odd.append(str(error))
    found = odd[:5]
    if len(odd) > 5:
        found.append(f"... and {len(odd) - 5:,} more are no files")
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
            decode(remote.joined(listing.root, path))
        except DataError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [text for text in pool.map(reason, paths) if text is not None]


def _alike(names: list[str]) -> list[str]:
    """Class names that differ in capitals alone, such as ``Red`` and ``red``."""
    groups = defaultdict(list)
    for name in names:
        groups[name.casefold()].append(name)
    alike = [sorted({*group}) for group in groups.values() if len({*group}) > 1]
    return [
        f"class names {some(group)} differ in capitals alone, yet are classes of their own; if they are one, merge "
        "their images"
        for group in alike[:5]
    ]


def _twice(table: pa.Table, *, hexes: list[str]) -> list[str]:
    """Images whose bytes stand in train and in test, or under several labels."""
    places = defaultdict(list)
    for path, label, split, digest in zip(
        table["path"].to_pylist(), table["label"].to_pylist(), table["split"].to_pylist(), hexes, strict=True
    ):
        places[digest].append((split, label, path))
    again = [group for digest, count in Counter(hexes).items() if count > 1 for group in [places[digest]]]
    both = [group for group in again if len({split for split, _, _ in group}) > 1]
    labels = [group for group in again if len({label for _, label, _ in group}) > 1]
    found = []
    if both:
        first = [path for _, _, path in both[0]]
        found.append(
            f"{len(both):,} images are in train and in test with the same bytes, for example {some(first)}; a test "
            "image that was trained on counts for nothing: remove it from one of them"
        )
    if labels:
        first = [path for _, _, path in labels[0]]
        found.append(
            f"{len(labels):,} images have several labels with the same bytes, for example {some(first)}; keep each "
            "under one label"
        )
    return found


def _changes(new: dict[str, str], *, path: Path) -> str:
    """How the images (path -> digest) differ from those in the manifest of the last run; "" if they do not."""
    if not path.is_file():
        return ""
    before = store.read_table(path, columns=["path", "digest"])
    old = dict(zip(before["path"].to_pylist(), before["digest"].to_pylist(), strict=True))
    changed = sum(digest != old[name] for name, digest in new.items() if name in old)
    counts = {"changed": changed, "added": len(new.keys() - old.keys()), "removed": len(old.keys() - new.keys())}
    said = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return f"images of this run differ from {path}: {said}" if said else ""


def _watched(dataset: DatasetParams) -> bool:
    """Whether DVC looks at the images themselves: `watch` is the folder that holds them, or one above it."""
    watch, root = Path(dataset.watch), Path(dataset.root)
    return watch.is_dir() and root.resolve().is_relative_to(watch.resolve())


NO_WORD = re.compile(r"[a-z][A-Z]|_|\w-\w|\w\d{2,}|^\d+$|\.$")
"""Names that no caption has: CamelCase, joined by _ or -, codes; or with a period at the end, which the prompt has."""


def _no_words(names: list[str], *, dataset: str) -> list[str]:
    """A text encoder reads ``HerbaceousVegetation`` as no word that it knows."""
    odd = [name for name in names if NO_WORD.search(name)]
    if not odd:
        return []
    return [
        f"{len(odd):,} of {len(names):,} class names are not written as in a caption: {some(odd)}; prompts use them as "
        f"they are. To rename them, name a file of lines `folder name` in datasets.{dataset}.class_names"
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
        if finding.n_train_listed > finding.n_train:
            counts[1] += f" of {finding.n_train_listed:,}"
        comparable = "yes" if finding.comparable else "" if finding.own else "no"
        table.add_row(finding.name, finding.role, found, *counts, comparable)
    console.print(table, highlight=False)
    console.print("")
    for finding in findings:
        if finding.split_source is not None:
            verdict = "paper-comparable" if finding.comparable else "not paper-comparable"
            says = f"; {verdict}: {finding.reason}" if finding.reason and not finding.own else ""
            _line(f"{finding.name}: split from {finding.split_source}{says}", console=console)
            if finding.class_names:
                _line(f"{finding.name}: classes {some(finding.class_names, limit=8)}", console=console)
    for finding in findings:
        for note in finding.notes:
            _line(f"note: {finding.name}: {note}", console=console)
    for finding in findings:
        for warning in finding.warnings:
            _line(f"warning: {finding.name}: {warning}", console=console)
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
