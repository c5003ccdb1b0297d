"""What `wsoup check` says of a dataset: what is there, what is wrong, and what is probably a mistake.

On disk, only the cache folder is written.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from wsoup.base import remote
from wsoup.base.class_names import shared_names
from wsoup.base.errors import DataError, WsoupError
from wsoup.base.folder_names import key
from wsoup.base.number_of import number_of
from wsoup.base.templates import oddity
from wsoup.datasets import digests, manifest, paper
from wsoup.datasets.copies import OF_PAPER, mistakes
from wsoup.datasets.few_images import only_class, thin_classes
from wsoup.datasets.hashing import stamps_of
from wsoup.datasets.left_out import left_out
from wsoup.datasets.listing import Listing, some
from wsoup.datasets.shape import shape_of
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.images.decode import load_rgb
from wsoup.params.inputs import ClassTextFile, DatasetParams
from wsoup.pipeline.checks.finding import Finding
from wsoup.pipeline.checks.findings_cache import cached_findings, encoder_inputs
from wsoup.pipeline.checks.hidden import replaced_by_dvc
from wsoup.pipeline.checks.published import figure_of
from wsoup.pipeline.checks.watched import missing_watch
from wsoup.pipeline.params import Params, covers
from wsoup.runtime.threads import cores
from wsoup.search.candidates import gpt_classes

UNCAPTIONED = re.compile(r"[a-z][A-Z]|_|\w-\w|\w\d{2,}|^\d+$|\.$")
"""Class names that no caption would contain: CamelCase, joined by _ or -, codes; or ending in a period, which the
template already has."""
SHOWN_UNREADABLE = 5
"""How many images that cannot be decoded are listed with their reason; the others are counted."""
BYTES_AT_ONCE = 2 << 30
"""Images that are read to find copies, in bytes; of more, only `wsoup check --deep` says which are copies."""


def dataset(name: str, *, params: Params, deep: bool) -> Iterator[Finding]:
    """What is known about one dataset of params.yaml; `deep` decodes every image."""
    section = params.datasets[name]
    problem = missing_watch(section)
    # Both paths are often wrong at once; but what lies in `watch` is missed with it.
    if not problem or not covers(section.watch, section.root):
        try:
            yield from _images(name, manifest.read_listing(name, params=section), params=params, deep=deep)
        except WsoupError as error:
            yield Finding("error", name, str(error))
    if problem:
        yield Finding("error", name, problem)


def _images(name: str, listing: Listing, *, params: Params, deep: bool) -> Iterator[Finding]:
    section = params.datasets[name]
    table, class_names = manifest.select(listing, params=section, shots=params.fewshot.shots, seeds=list(params.seeds))
    for fact in _facts(name, listing, section=section, table=table):
        yield Finding("fact", name, fact)
    for fact in thin_classes(listing, params=section, shots=params.fewshot.shots):
        yield Finding("fact", name, fact)
    n_test = pc.sum(pc.equal(table["split"], "test")).as_py()
    for fact in figure_of(name, params=params, n_images=n_test, n_classes=len(class_names)):
        yield Finding("fact", name, fact)
    for line in listing.notes:
        # What was taken for what is a fact, what was left out may be a mistake.
        yield Finding("warning" if line.startswith("left out") else "fact", name, line)
    if section.layout == "imagefolder":
        yield Finding("fact", name, shape_of(section.root).taken_for(section.test_split))
        for line in [*left_out(section.root), *replaced_by_dvc(section.root)]:
            yield Finding("warning", name, line)
    for warning in _odd_names(class_names, layout=section.layout):
        yield Finding("warning", name, warning)
    paths = table["path"].to_pylist()
    faults = _file_faults(listing, paths=paths)
    if deep and not faults:
        faults = _undecodable(listing, paths=paths)
    for fault in faults:
        yield Finding("error", name, fault)
    before = Artifacts().manifest(name)
    # Digests read every image once; after a run they come from the digest cache.
    if not faults and (deep or before.is_file()):
        _, hexes = digests.of_images(listing.root, paths, origin=listing.origin)
        for warning in mistakes(table, digests=hexes):
            yield Finding("warning", name, warning)
        if before.is_file():
            changes = _changes(dict(zip(paths, hexes, strict=True)), path=before)
            if changes and not covers(section.watch, section.root):
                again = f"`dvc repro --force --single-item prepare@{name}`, then `dvc repro`"
                yield Finding("error", name, f"images of this run differ from {before}: {changes}; run {again}")
    elif not faults:
        for finding in _copies(listing, table=table, section=section):
            yield finding._replace(about=name)
    for given in section.class_texts:
        # A class that the file has no key for is an error.
        of_classes = gpt_classes.texts_of(given, class_names=class_names)
        of_model: list[object] = encoder_inputs(params)
        inputs: list[object] = [of_model, section.model_dump(mode="json"), of_classes]
        look = partial(_long_class_texts, name, given=given, params=params, of_classes=of_classes)
        yield from cached_findings(f"long_{given.key}_{name}", inputs=inputs, look=look)
    for template in {section.template, section.baseline_template or section.template}:
        if oddity(template):
            yield Finding("warning", name, oddity(template))
    if name == params.source:
        if len(class_names) < 2:
            yield Finding("error", name, only_class(class_names))
        inputs = [encoder_inputs(params), *_pool_inputs(params), section.template, class_names]
        yield from cached_findings(
            "long_texts", inputs=inputs, look=lambda: _long_texts(params, class_names=class_names)
        )


def _facts(name: str, listing: Listing, *, section: DatasetParams, table: pa.Table) -> Iterator[str]:
    """Numbers of classes and images; class names; where the split is from, and whether the paper's results compare."""
    class_names = listing.class_names
    n_test = pc.sum(pc.equal(table["split"], "test")).as_py()
    n_train = table.num_rows - n_test
    train = ""
    if n_train:
        train = f"{n_train:,} of {len(listing.split('train').labels):,} training images, "
    shown = some(class_names, limit=8)
    counted = f"{number_of(len(class_names), 'class')}, {train}{number_of(n_test, 'test image')}"
    yield f"{section.role}: {counted}; classes {shown}"
    of_paper = ""
    if section.layout.startswith("coop"):
        comparable, reason = paper.comparable(
            section.layout,
            dataset=name,
            template=section.template,
            test_split=section.test_split,
            n_test=n_test,
            n_classes=len(class_names),
        )
        verdict = "paper-comparable" if comparable else "not paper-comparable"
        of_paper = f"; {verdict}: {reason}"
    yield f"split from {listing.origin}{of_paper}"


def _file_faults(listing: Listing, *, paths: list[str]) -> list[str]:
    """Images that are missing, are not files, or are empty."""
    try:
        stamps = stamps_of(listing.root, paths, origin=listing.origin)
    except WsoupError as error:
        return [str(error)]
    empty = [path for path, size in zip(paths, stamps[:, 0].tolist(), strict=True) if size == 0]
    if not empty:
        return []
    return [f"{number_of(len(empty), 'image')} of 0 bytes: {some(empty)}; replace or remove them"]


def _undecodable(listing: Listing, *, paths: list[str]) -> list[str]:
    """The first few images that cannot be decoded, and the number of the others."""

    def reason(path: str) -> str | None:
        try:
            load_rgb(remote.joined(listing.root, path))
        except DataError as error:
            return str(error)
        return None

    # Threads suffice: Pillow decodes without Python's lock.
    with ThreadPoolExecutor(cores()) as pool:
        reasons = [text for text in pool.map(reason, paths) if text is not None]
    shown = reasons[:SHOWN_UNREADABLE]
    n_more = len(reasons) - len(shown)
    if n_more:
        shown.append(f"... and {number_of(n_more, 'more image')} that cannot be decoded")
    return shown


def _odd_names(class_names: list[str], *, layout: str) -> Iterator[str]:
    """Class names of several classes, that no reader tells apart, or that are not words: ``HerbaceousVegetation``."""
    shared = shared_names(class_names)
    if shared:
        yield shared
    distinct = set(class_names)
    count = Counter(key(name) for name in distinct)
    same = sorted(name for name in distinct if count[key(name)] > 1)
    if same:
        listed = some(same, limit=10)
        yield f"class names {listed} differ in case, separators or blanks alone; if they are one, merge them"
    # The paper's names are as they are.
    if layout.startswith("coop"):
        return
    odd = [name for name in class_names if UNCAPTIONED.search(name)]
    if odd:
        yield (
            f"{len(odd):,} of {len(class_names):,} class names are not written as in a caption: {some(odd)}; prompts "
            "use them as they are. To rename them, name a file of lines `folder, a tab, name` in class_names"
        )


def _copies(listing: Listing, *, table: pa.Table, section: DatasetParams) -> Iterator[Finding]:
    """Copies among the images of a run, before they were ever read: only images of one size may be equal."""
    if section.layout.startswith(OF_PAPER) or remote.is_remote(listing.root):
        return
    paths = table["path"].to_pylist()
    sizes = stamps_of(listing.root, paths, origin=listing.origin)[:, 0].tolist()
    count = Counter(sizes)
    rows = [i for i, size in enumerate(sizes) if count[size] > 1]
    if not rows:
        return
    if sum(sizes[i] for i in rows) > BYTES_AT_ONCE:
        yield Finding("fact", "", "copies among its images are looked for by `wsoup check --deep`")
        return
    candidates = table.take(rows)
    _, hexes = digests.of_images(listing.root, candidates["path"].to_pylist(), origin=listing.origin)
    for line in mistakes(candidates, digests=hexes):
        yield Finding("warning", "", line)


def _changes(new: dict[str, str], *, path: Path) -> str:
    """How the images (path -> digest) differ from those in the last run's manifest; "" if they do not."""
    table = store.read_table(path, columns=["path", "digest"])
    old = dict(zip(table["path"].to_pylist(), table["digest"].to_pylist(), strict=True))
    in_both = new.keys() & old.keys()
    counts = {
        "changed": sum(new[name] != old[name] for name in in_both),
        "added": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
    }
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


def _pool_inputs(params: Params) -> list[object]:
    """What determines the texts of the pools that are the user's own, as JSON values."""
    candidates = params.candidates
    digests_of_files = []
    for pool in candidates.pools:
        for path in candidates.files(pool):
            if os.path.isfile(path):
                digests_of_files.append(store.sha256_file(path))
    return [candidates.model_dump(mode="json"), digests_of_files]


def _long_class_texts(
    name: str, *, given: ClassTextFile, params: Params, of_classes: Mapping[str, Sequence[str]]
) -> Iterator[Finding]:
    # Imported here, because torch and open_clip take three seconds.
    from wsoup.pipeline.checks.encoder import long_class_texts

    for problem in long_class_texts(given, section=params.datasets[name], params=params, of_classes=of_classes):
        yield Finding("error", name, problem)


def _long_texts(params: Params, *, class_names: list[str]) -> Iterator[Finding]:
    # Imported here, because torch and open_clip take three seconds.
    from wsoup.pipeline.checks.encoder import long_texts

    for problem in long_texts(params, class_names=class_names):
        yield Finding("error", "", problem)
