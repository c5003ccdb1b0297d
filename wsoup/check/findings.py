"""The one list of what `wsoup check` looks at: encoder, datasets, pools, and what would stop a run (`preflight`).

No weights are loaded. The model is built with random ones to learn its text path, activation and resolution, and
whether the methods of params.yaml can train it; a stage would find out hours later. Of a dataset it says what is there,
what is wrong, and what is probably a mistake. Only the digest cache is written.
"""

import difflib
import os
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from wsoup.base import remote
from wsoup.base.errors import DataError, ModelError, WsoupError, one_line
from wsoup.check import preflight
from wsoup.check.whole import Params, covers
from wsoup.core import prompts
from wsoup.datasets import digests, manifest, paper
from wsoup.datasets.listing import Listing, some
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.finetune.student import check_model
from wsoup.images.decode import load_rgb
from wsoup.paper import coverage
from wsoup.params.inputs import DatasetParams, EncoderParams
from wsoup.runtime.threads import cores
from wsoup.search.rank import gpt, gpt_classes, pools
from wsoup.texts.models import read_tower
from wsoup.texts.tokens import too_long
from wsoup.towers.models import forced_quick_gelu, known_tags, tokenizer_of, untrained_model

UNCAPTIONED = re.compile(r"[a-z][A-Z]|_|\w-\w|\w\d{2,}|^\d+$|\.$")
"""Class names that no caption would contain: CamelCase, joined by _ or -, codes; or ending in a period, which the
template already has."""


class Finding(NamedTuple):
    """A line of `wsoup check`.

    Attributes:
        kind: fact; warning: what a run accepts but is probably a mistake; error: what would end a run.
        about: a dataset's name, or encoder, or "".
        text: one sentence; with the next step if it is no fact.
    """

    kind: str
    about: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.kind, self.about, self.text) if part not in ("", "fact"))


def findings(params: Params, *, deep: bool) -> list[Finding]:
    """Every finding about params.yaml once: facts, then warnings, then errors; `deep` also decodes every image."""
    of_pools = coverage.pools_of_params(params.model_dump(mode="json", by_alias=True))
    found = [
        *encoder(params),
        *(finding for name in params.datasets for finding in dataset(name, params=params, deep=deep)),
        *(Finding("fact" if of_authors else "warning", "", text) for of_authors, text in of_pools),
        *(Finding("error", "", one_line(problem)) for problem in preflight.problems(params)),
    ]
    once: dict[str, Finding] = {}
    for finding in found:  # a file may be missed by several parts
        once.setdefault(finding.text if finding.kind == "error" else str(finding), finding)
    return sorted(once.values(), key=lambda finding: ("fact", "warning", "error").index(finding.kind))


def encoder(params: Params) -> Iterator[Finding]:
    """Build the model without weights; say what it is and what it cannot do."""
    section = params.encoder
    if section.comes_with_weights:
        yield Finding(
            "fact", "encoder", f"{section.model}: model and weights come from there; a run will show the rest"
        )
        return
    if problem := _tag_problem(section):
        yield Finding("error", "encoder", problem)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = untrained_model(section)
            quick = forced_quick_gelu(section) or any(type(part).__name__ == "QuickGELU" for part in model.modules())
            tower = read_tower(model, dtype=None)
    except WsoupError as error:
        yield Finding("error", "encoder", str(error))
        return
    way = "fast (compared with encode_text on first use)" if tower else "plain, by encode_text: correct but slower"
    size = getattr(model.visual, "image_size", None)
    height, width = (size, size) if isinstance(size, int) else tuple(size or ("?", "?"))
    for fact in (
        f"{section.model}: {sum(p.numel() for p in model.parameters()) / 1e6:.0f} million parameters",
        f"images: {type(model.visual).__name__}, {height} x {width} pixels",
        f"texts: {way}; activation {'QuickGELU' if quick else 'GELU'}",
    ):
        yield Finding("fact", "encoder", fact)
    for warning in caught:
        yield Finding("warning", "encoder", " ".join(str(warning.message).split()))
    if params.finetune.methods:
        try:
            check_model(model)
            yield Finding("fact", "encoder", "finetuning: the methods can train it")
        except ModelError as error:
            yield Finding("error", "encoder", f"finetune.methods: {error}; or set finetune.methods to {{}}")


def _tag_problem(section: EncoderParams) -> str | None:
    """No weights, or a tag that open_clip does not have for this model; `preflight` looks for files."""
    tags = known_tags(section.model)
    if not section.pretrained:
        return "encoder.pretrained is null: name a tag (open_clip.list_pretrained()) or a weights file"
    if section.weights_file is not None or section.pretrained in tags:
        return None
    near = difflib.get_close_matches(section.pretrained, tags, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(tags) or 'none'}"
    return f"encoder.pretrained: {section.model} has no tag {section.pretrained!r}; {hint}"


# ------------------------------------------------------------------------------------------------------------ datasets


def dataset(name: str, *, params: Params, deep: bool) -> Iterator[Finding]:
    """What is known about one dataset of params.yaml; `deep` decodes every image."""
    section = params.datasets[name]
    try:
        yield from _images(name, manifest.read_listing(name, params=section), params=params, deep=deep)
    except WsoupError as error:
        yield Finding("error", name, str(error))
    if not os.path.exists(section.watch):
        step = "name a file or folder for `dvc repro` to watch"
        yield Finding("error", name, f"watch: {section.watch} does not exist; {step}")


def _images(name: str, listing: Listing, *, params: Params, deep: bool) -> Iterator[Finding]:
    section = params.datasets[name]
    error = partial(Finding, "error", name)
    warning = partial(Finding, "warning", name)
    table, names = manifest.select(listing, params=section, shots=params.fewshot.shots, seeds=list(params.seeds))
    yield from (Finding("fact", name, text) for text in _facts(name, listing, section=section, table=table))
    yield from map(warning, _odd_names(names, layout=section.layout))
    paths = table["path"].to_pylist()
    faults = _file_faults(listing, paths=paths) or (_undecodable(listing, paths=paths) if deep else [])
    yield from map(error, faults)
    before = Artifacts().manifest(name)
    # Digests read every image once; after a run they come from the digest cache.
    if not faults and (deep or before.is_file()):
        _, hexes = digests.of_images(listing.root, paths, origin=listing.origin)
        yield from map(warning, _copies(table, hexes=hexes))
        changes = _changes(dict(zip(paths, hexes, strict=True)), path=before) if before.is_file() else ""
        if changes and not covers(section.watch, section.root):
            again = f"`dvc repro --force --single-item prepare@{name}`, then `dvc repro`"
            yield error(f"images of this run differ from {before}: {changes}; run {again}")
    if section.gpt_descriptors is not None:
        texts, named = gpt.read(section.gpt_descriptors), section.gpt_names or {}
        gpt_classes.matched(texts, class_names=names, origin=section.gpt_descriptors, gpt_names=named)
    if name == params.source:
        yield from (Finding("error", "", text) for text in long_texts(params, class_names=names))


def _facts(name: str, listing: Listing, *, section: DatasetParams, table: pa.Table) -> Iterator[str]:
    """Numbers of classes and images; class names; where the split is from, and whether the paper's results compare."""
    names = listing.class_names
    n_test = pc.sum(pc.equal(table["split"], "test")).as_py()
    train = ""
    if drawn := table.num_rows - n_test:
        train = f"{drawn:,} of {len(listing.split('train').labels):,} training images, "
    yield f"{section.role}: {len(names):,} classes, {train}{n_test:,} test images; classes {some(names, limit=8)}"
    comparable, reason = paper.comparable(
        section.layout,
        dataset=name,
        template=section.template,
        test_split=section.test_split,
        n_test=n_test,
        n_classes=len(names),
    )
    of_paper = f"; {'' if comparable else 'not '}paper-comparable: {reason}" if section.layout[:4] == "coop" else ""
    yield f"split from {listing.origin}{of_paper}"


def _file_faults(listing: Listing, *, paths: list[str]) -> list[str]:
    """Images that are missing, no files, or empty."""
    try:
        stamps = digests.stamps_of(listing.root, paths, origin=listing.origin)
    except WsoupError as error:
        return [str(error)]
    empty = [path for path, size in zip(paths, stamps[:, 0].tolist(), strict=True) if size == 0]
    return [f"{len(empty):,} images are empty (0 bytes): {some(empty)}; replace or remove them"] if empty else []


def _undecodable(listing: Listing, *, paths: list[str]) -> list[str]:
    """The first five images that cannot be decoded, and the number of the others."""

    def reason(path: str) -> str | None:
        try:
            load_rgb(remote.joined(listing.root, path))
        except DataError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(cores()) as pool:
        reasons = [text for text in pool.map(reason, paths) if text is not None]
    more = [f"... and {len(reasons) - 5:,} more images cannot be decoded"] if len(reasons) > 5 else []
    return reasons[:5] + more


def _odd_names(names: list[str], *, layout: str) -> Iterator[str]:
    """Class names that differ only in case, or that a text encoder does not read as words: ``HerbaceousVegetation``."""
    count = Counter(name.casefold() for name in {*names})
    if same := sorted(name for name in {*names} if count[name.casefold()] > 1):
        yield f"class names {some(same, limit=10)} differ only in upper and lower case; if they are one, merge them"
    odd = [name for name in names if UNCAPTIONED.search(name)]
    if odd and not layout.startswith("coop"):
        yield (
            f"{len(odd):,} of {len(names):,} class names are not written as in a caption: {some(odd)}; prompts use "
            "them as they are. To rename them, name a file of lines `folder name` in its class_names"
        )


def _copies(table: pa.Table, *, hexes: list[str]) -> Iterator[str]:
    """Images with the same bytes in train and in test, or under several labels."""
    copies = defaultdict(list)
    for digest, image in zip(hexes, table.select(["path", "split", "label"]).to_pylist(), strict=True):
        copies[digest].append(image)
    mistakes = {
        "split": "are in train and in test with the same bytes, for example {}; a test image that was trained on "
        "proves nothing: remove it from one of them",
        "label": "have several labels with the same bytes, for example {}; keep each under one label",
    }
    for column, sentence in mistakes.items():
        if groups := [group for group in copies.values() if len({image[column] for image in group}) > 1]:
            example = some([image["path"] for image in groups[0]])
            yield f"{len(groups):,} images {sentence.format(example)}"


def _changes(new: dict[str, str], *, path: Path) -> str:
    """How the images (path -> digest) differ from those in the last run's manifest; "" if they do not."""
    table = store.read_table(path, columns=["path", "digest"])
    old = dict(zip(table["path"].to_pylist(), table["digest"].to_pylist(), strict=True))
    changed = sum(digest != old[name] for name, digest in new.items() if name in old)
    counts = {"changed": changed, "added": len(new.keys() - old.keys()), "removed": len(old.keys() - new.keys())}
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


def long_texts(params: Params, *, class_names: Sequence[str]) -> Iterator[str]:
    """Each descriptor, and each word from the user's own list, that is too long after one of the source's classes."""
    candidates = params.candidates
    if candidates.on_long_text == "skip":
        return
    try:
        tokenizer = tokenizer_of(params.encoder.model)
        texts = {"descriptors": pools.descriptors(candidates.descriptors.paths)}
        if candidates.words.path is not None:
            texts["words"] = pools.words_from_file(candidates.words.path, count=candidates.words.count)
    except WsoupError:  # a missing pool or model is reported elsewhere
        return
    stems = prompts.stems(params.datasets[params.source].template, class_names)
    for pool, pool_texts in texts.items():
        for stem, text in too_long(pool_texts, stems=stems, tokenizer=tokenizer):
            after = one_line(stem, limit=160)
            yield (
                f"candidates.{pool}: {one_line(text, limit=160)!r} does not fit the model's context after {after!r}; "
                "shorten it or leave it out, or set candidates.on_long_text: skip"
            )
