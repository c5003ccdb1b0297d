"""Check the datasets of params.yaml before anything runs: `wsoup check`.

Only the digest cache is written. Every finding ends with the next step.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from wsoup.base import remote
from wsoup.base.errors import DataError, MissingError, WsoupError
from wsoup.check.whole import Params
from wsoup.datasets import digests, manifest, paper
from wsoup.datasets.listing import Listing, problems, some
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.disk.members import file_size
from wsoup.images.versions import differing
from wsoup.params.inputs import DatasetParams
from wsoup.runtime.threads import cores
from wsoup.search.rank import gpt

Decode = Callable[[str], object]
UNCAPTIONED = re.compile(r"[a-z][A-Z]|_|\w-\w|\w\d{2,}|^\d+$|\.$")
"""Class names that no caption would contain: CamelCase, joined by _ or -, codes; or ending in a period, which the
template already has."""


@dataclass
class Finding:
    """What is known about one dataset.

    Attributes:
        name, role: as in params.
        split_source: the file or folder that says which image is in which split; None if the dataset is missing.
        class_names: in label order.
        n_train, n_test: images; n_train is the few-shot training images of all seeds.
        n_train_listed: all training images, from which those are drawn.
        own: whether this is none of the paper's datasets, so that comparing makes no sense.
        expected: the paper's number of test images, or None.
        comparable, reason: whether results may be compared with the paper's, and why (not).
        problems: one sentence each, with the next step.
        warnings: the same, for what a run accepts but is probably a mistake.
        notes: worth knowing.
    """

    name: str
    role: str
    split_source: str | None = None
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
    params: Params, *, manifests: Path, decode: Decode | None, imagenet_names: Callable[[], list[str]]
) -> list[Finding]:
    """Check all datasets, in the order of params.

    Args:
        params: all of params.yaml.
        manifests: folder of the last run's manifests, to find images that changed since.
        decode: decodes one image file or raises DataError (``--deep``); None only looks at sizes.
        imagenet_names: ImageNet's class names, called only if a layout needs them.
    """
    findings = []
    for name, dataset in params.datasets.items():
        finding = Finding(name, dataset.role)
        try:
            listing = manifest.listing(name, params=dataset, imagenet_names=imagenet_names)
            finding.split_source = listing.origin
            finding.problems += problems(listing)
            if not finding.problems:
                _check_images(finding, listing, params=params, manifests=manifests, decode=decode)
        except WsoupError as error:
            finding.problems.append(str(error))
        if not os.path.exists(dataset.watch):
            finding.problems.append(
                f"watch: {dataset.watch} does not exist; name a file or folder for `dvc repro` to watch"
            )
        findings.append(finding)
    _check_features({finding.name: finding for finding in findings})
    return findings


def _check_features(findings: dict[str, Finding]) -> None:
    """Warn if the last run's features of one dataset were made with other package versions than the rest."""
    made_with = {}
    for name in findings:
        for split in ("train", "test"):
            attributes = store.features_attributes(Artifacts().features(name, split=split))
            made_with[name, split] = attributes.get("made_with", {})
    for (name, split), sentence in differing(made_with).items():
        stage = f"embed@{name}" if split == "test" else "embed_train"
        findings[name].warnings.append(
            f"{split} features {sentence}; make them again: `dvc repro --force --single-item {stage}`, then `dvc repro`"
        )


def _check_images(
    finding: Finding, listing: Listing, *, params: Params, manifests: Path, decode: Decode | None
) -> None:
    dataset = params.datasets[finding.name]
    table, names = manifest.select(listing, params=dataset, shots=params.fewshot.shots, seeds=list(params.seeds))
    finding.class_names = names
    finding.own = not dataset.layout.startswith("coop")
    finding.n_test = pc.sum(pc.equal(table["split"], "test")).as_py()
    finding.n_train = table.num_rows - finding.n_test
    if finding.n_train:
        finding.n_train_listed = len(listing.split("train").labels)
    finding.comparable, finding.reason = paper.comparable(
        dataset.layout,
        dataset=finding.name,
        template=dataset.template,
        test_split=dataset.test_split,
        n_test=finding.n_test,
        n_classes=len(names),
    )
    finding.expected = paper.expected_n_test(dataset.layout, dataset=finding.name)
    finding.warnings += _same_but_for_case(names)
    finding.warnings += _uncaptioned(names, dataset=finding.name) if finding.own else []
    paths = table["path"].to_pylist()
    finding.problems += _file_problems(listing, paths=paths, decode=decode)
    previous = manifests / f"{finding.name}.parquet"
    # Digests read every image once; after a run they come from the digest cache.
    if not finding.problems and (decode is not None or previous.is_file()):
        hexes = digests.of_images(listing.root, paths, origin=listing.origin).hexes
        finding.warnings += _duplicates(table, hexes=hexes)
        changes = _changes(dict(zip(paths, hexes, strict=True)), path=previous)
        if changes and _watched(dataset):
            finding.notes.append(f"{changes}; `dvc repro` picks that up")
        elif changes:
            again = f"`dvc repro --force --single-item prepare@{finding.name}`, then `dvc repro`"
            finding.problems.append(f"{changes}; run {again}")
    if dataset.gpt_descriptors is not None:
        gpt.matched(gpt.read(dataset.gpt_descriptors), class_names=names, origin=dataset.gpt_descriptors)


def _file_problems(listing: Listing, *, paths: list[str], decode: Decode | None) -> list[str]:
    """Images that are missing, empty, or (with `decode`) unreadable."""
    missing, empty, irregular = [], [], []
    for path in paths:
        try:
            if file_size(remote.joined(listing.root, path)) == 0:
                empty.append(path)
        except MissingError:
            missing.append(path)
        except DataError as error:
            irregular.append(str(error))
    sentences = _first_five(irregular, others="are no files")
    if missing:
        sentences.append(
            f"{len(missing):,} of {len(paths):,} images listed in {listing.origin} do not exist: {some(missing)}; "
            "unpack the dataset again"
        )
    if empty:
        sentences.append(f"{len(empty):,} images are empty (0 bytes): {some(empty)}; replace or remove them")
    if decode is not None and not sentences:
        sentences = _first_five(_undecodable(listing, paths=paths, decode=decode), others="images cannot be decoded")
    return sentences


def _first_five(sentences: list[str], *, others: str) -> list[str]:
    more = [f"... and {len(sentences) - 5:,} more {others}"] if len(sentences) > 5 else []
    return sentences[:5] + more


def _undecodable(listing: Listing, *, paths: list[str], decode: Decode) -> list[str]:
    def reason(path: str) -> str | None:
        try:
            decode(remote.joined(listing.root, path))
        except DataError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(cores()) as pool:
        return [text for text in pool.map(reason, paths) if text is not None]


def _same_but_for_case(names: list[str]) -> list[str]:
    """Class names that differ only in upper and lower case, such as ``Red`` and ``red``."""
    spellings = defaultdict(set)
    for name in names:
        spellings[name.casefold()].add(name)
    return [
        f"class names {some(sorted(group))} differ only in upper and lower case, yet are separate classes; if they "
        "are one, merge their images"
        for group in [group for group in spellings.values() if len(group) > 1][:5]
    ]


def _uncaptioned(names: list[str], *, dataset: str) -> list[str]:
    """Class names such as ``HerbaceousVegetation``, which a text encoder does not read as words."""
    odd = [name for name in names if UNCAPTIONED.search(name)]
    if not odd:
        return []
    return [
        f"{len(odd):,} of {len(names):,} class names are not written as in a caption: {some(odd)}; prompts use them as "
        f"they are. To rename them, name a file of lines `folder name` in datasets.{dataset}.class_names"
    ]


def _duplicates(table: pa.Table, *, hexes: list[str]) -> list[str]:
    """Images with the same bytes in train and in test, or under several labels."""
    copies = defaultdict(list)
    for digest, image in zip(hexes, table.select(["path", "split", "label"]).to_pylist(), strict=True):
        copies[digest].append(image)
    mistakes = {
        "split": "are in train and in test with the same bytes, for example {}; a test image that was trained on "
        "proves nothing: remove it from one of them",
        "label": "have several labels with the same bytes, for example {}; keep each under one label",
    }
    sentences = []
    for column, sentence in mistakes.items():
        groups = [group for group in copies.values() if len({image[column] for image in group}) > 1]
        if groups:
            example = some([image["path"] for image in groups[0]])
            sentences.append(f"{len(groups):,} images {sentence.format(example)}")
    return sentences


def _changes(new: dict[str, str], *, path: Path) -> str:
    """How the images (path -> digest) differ from those in the last run's manifest; "" if they do not."""
    if not path.is_file():
        return ""
    manifest_before = store.read_table(path, columns=["path", "digest"])
    old = dict(zip(manifest_before["path"].to_pylist(), manifest_before["digest"].to_pylist(), strict=True))
    changed = sum(digest != old[name] for name, digest in new.items() if name in old)
    counts = {"changed": changed, "added": len(new.keys() - old.keys()), "removed": len(old.keys() - new.keys())}
    changes = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return f"images of this run differ from {path}: {changes}" if changes else ""


def _watched(dataset: DatasetParams) -> bool:
    """Whether DVC hashes the images themselves: `watch` is their folder or one above it."""
    watch, root = Path(dataset.watch), Path(dataset.root)
    return watch.is_dir() and root.resolve().is_relative_to(watch.resolve())


def show(findings: list[Finding], console: Console) -> None:
    """Print a table; then the split source of every dataset and whether it is paper-comparable; then every problem."""
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
    numbers = (len(finding.class_names), finding.n_train, finding.n_test, finding.expected)
    counts = [f"{n:,}" if n else "" for n in numbers]
    if finding.n_train_listed > finding.n_train:
        counts[1] += f" of {finding.n_train_listed:,}"
    return state, *counts, "yes" if finding.comparable else "" if finding.own else "no"
