"""What every dataset of params.yaml holds, before anything runs: `wsoup check` and `wsoup data layouts`.

Nothing is written but the digest cache. Every finding ends with the next step.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from wsoup.check.whole import Params
from wsoup.core.disk import remote, store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.files import file_size
from wsoup.core.errors import DataError, MissingError, WsoupError
from wsoup.core.params.datasets import DatasetParams
from wsoup.datasets import digests, layouts, manifest, paper
from wsoup.datasets.listing import Listing, problems, some
from wsoup.images.versions import differing
from wsoup.search.rank import gpt

Decode = Callable[[str], object]


@dataclass
class Finding:
    """What there is of one dataset.

    Attributes:
        name, role: as in params.
        split_source: the file or folder that says which image is in which split; None where nothing is there.
        class_names: in label order.
        n_classes, n_train, n_test: counts; n_train is the few-shot training images of all seeds.
        n_train_listed: all training images, of which those are drawn.
        own: none of the paper's datasets, so nobody asks whether it is comparable.
        expected: test images of the paper, or None.
        comparable, reason: whether results stand beside the paper's, and why (not).
        problems: one sentence each, with the next step.
        warnings: the same, of what a run accepts but nobody means.
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
        manifests: folder of the manifests of the last run; images that changed since are named.
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
    finding.comparable, finding.reason = paper.comparable(
        dataset.layout,
        dataset=finding.name,
        template=dataset.template,
        classes=dataset.classes,
        test_split=dataset.test_split,
        n_test=finding.n_test,
        n_classes=finding.n_classes,
    )
    finding.expected = paper.expected_n_test(dataset.layout, dataset=finding.name)
    finding.warnings += _alike(names)
    finding.warnings += _uncaptioned(names, dataset=finding.name) if finding.own else []
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


def _files(listing: Listing, *, paths: list[str], decode: Decode | None) -> list[str]:
    """Images that are missing, empty, or (where `decode` is given) unreadable."""
    lost, empty, odd = [], [], []
    for path in paths:
        try:
            if file_size(remote.joined(listing.root, path)) == 0:
                empty.append(path)
        except MissingError:
            lost.append(path)
        except DataError as error:
            odd.append(str(error))
    sentences = _first(odd, others="are no files")
    if lost:
        sentences.append(
            f"{len(lost):,} of {len(paths):,} images listed in {listing.origin} do not exist: {some(lost)}; "
            "unpack the dataset again"
        )
    if empty:
        sentences.append(f"{len(empty):,} images are empty (0 bytes): {some(empty)}; replace or remove them")
    if decode is not None and not sentences:
        sentences = _first(_undecodable(listing, paths=paths, decode=decode), others="images cannot be decoded")
    return sentences


def _first(sentences: list[str], *, others: str) -> list[str]:
    """The first five, and how many others there are."""
    more = [f"... and {len(sentences) - 5:,} more {others}"] if len(sentences) > 5 else []
    return sentences[:5] + more


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
    spellings = defaultdict(set)
    for name in names:
        spellings[name.casefold()].add(name)
    return [
        f"class names {some(sorted(group))} differ in capitals alone, yet are classes of their own; if they are one, "
        "merge their images"
        for group in [group for group in spellings.values() if len(group) > 1][:5]
    ]


def _twice(table: pa.Table, *, hexes: list[str]) -> list[str]:
    """Images with the same bytes in train and in test, or under several labels."""
    copies = defaultdict(list)
    for digest, image in zip(hexes, table.select(["path", "split", "label"]).to_pylist(), strict=True):
        copies[digest].append(image)
    wrong = {
        "split": "are in train and in test with the same bytes, for example {}; a test image that was trained on "
        "counts for nothing: remove it from one of them",
        "label": "have several labels with the same bytes, for example {}; keep each under one label",
    }
    sentences = []
    for column, sentence in wrong.items():
        groups = [group for group in copies.values() if len({image[column] for image in group}) > 1]
        if groups:
            example = some([image["path"] for image in groups[0]])
            sentences.append(f"{len(groups):,} images {sentence.format(example)}")
    return sentences


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


UNCAPTIONED = re.compile(r"[a-z][A-Z]|_|\w-\w|\w\d{2,}|^\d+$|\.$")
"""Names that no caption has: CamelCase, joined by _ or -, codes; or with a period at the end, which the prompt has."""


def _uncaptioned(names: list[str], *, dataset: str) -> list[str]:
    """A text encoder reads ``HerbaceousVegetation`` as no word that it knows."""
    odd = [name for name in names if UNCAPTIONED.search(name)]
    if not odd:
        return []
    return [
        f"{len(odd):,} of {len(names):,} class names are not written as in a caption: {some(odd)}; prompts use them as "
        f"they are. To rename them, name a file of lines `folder name` in datasets.{dataset}.class_names"
    ]
