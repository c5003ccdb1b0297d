"""One head for every seed, from few-shot images and a soup's texts, and its counts where the classes are the source's.

Heads are fitted and written before any test image is read.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import torch

from wsoup.base.class_names import positions_by_name
from wsoup.core.calibration import Calibration
from wsoup.core.scoring import Scores
from wsoup.core.soup import Soup
from wsoup.disk import store
from wsoup.disk.shards import Owner, Shard
from wsoup.evaluate.baselines import ensemble_prompts
from wsoup.evaluate.right import pack_right
from wsoup.evaluate.row_key import file_of_head
from wsoup.evaluate.rows import row_name
from wsoup.heads.fewshot import checked
from wsoup.heads.head import Head, best_head
from wsoup.heads.in_turn import FEW
from wsoup.heads.params import HeadParams, Heads
from wsoup.heads.rows_in_turn import rows_in_turn
from wsoup.heads.zero_shot import class_texts
from wsoup.params.section import load, one_of
from wsoup.pipeline import stage
from wsoup.runtime.memory import give_back
from wsoup.runtime.work import finish_by_key
from wsoup.search.rank.source import Source, identity_of_source, load_source
from wsoup.towers.features import ImageFeatures, open_features
from wsoup.towers.logit_scale import logit_scale_of
from wsoup.towers.models import ensemble_templates
from wsoup.towers.run import Run, SourceParams

ROLES = ("source", "dg")
"""Roles of datasets that may share the classes of a head."""
IMAGES = 4096
"""Test images whose features are in memory at a time."""


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    heads: Heads


def main(owner: Owner, name: str) -> None:
    """Make and evaluate NAME, a head of section `heads`."""
    params = load(Wanted)
    definition = one_of("heads", params.heads, name)
    run = Run.of(owner, params)
    artifacts = run.artifacts
    source = load_source(run)
    soups = {}
    for seed in run.seeds:
        soups[seed] = Soup.load(artifacts.soup(definition.soup, seed=seed), encoder=run.encoder.id)
    with store.replacing(artifacts.head(name, seed=0).parent) as folder:
        # Files are written plainly, because the folder as a whole takes its place at the end.
        folder.mkdir()
        for seed, file in fit(owner, definition, source=source, soups=soups):
            (folder / f"seed{seed}.safetensors").write_bytes(file)
    # Test images are read from here on, when nothing can be chosen by them any more.
    heads = [Head.load(artifacts.head(name, seed=seed)) for seed in run.seeds]
    lines = []
    in_turn: dict[str, list[float]] = {}
    evaluated = store.read_checked_object(artifacts.evaluated)["datasets"]
    for dataset in sorted(each["name"] for each in evaluated):
        # Opened rather than read: a test set may be larger than memory, and `counted` goes through it in blocks.
        test = open_features(artifacts.features(dataset, split="test"), encoder=run.encoder.id)
        same_classes = set(test.class_names) <= set(source.class_names)
        if same_classes and test.attributes["role"] in ROLES:
            for head in heads:
                lines.append(counted(head, name=name, soup=definition.soup, test=test))
        if dataset == run.source:
            in_turn = judged(heads, source=source, test=test)
    attributes = run.about | {
        "parameters": heads[0].classifier.numel(),
        "members_kl": [],
        "soup": definition.soup,
        "in_turn": in_turn,
        "left_out": [[head.kind, head.n_correct, head.n_images] for head in heads],
    }
    out = file_of_head(artifacts.results, name)
    store.write_table(out, pa.Table.from_pylist(lines), attributes=attributes)
    print(f"{out}: {len(lines)} lines; left-out images right, by seed: {', '.join(map(left_out, heads))}")


def left_out(head: Head) -> str:
    """How many left-out images a head got right, with its note."""
    counts = f"{head.n_correct} of {head.n_images}"
    if not head.note:
        return counts
    return f"{counts} ({head.note})"


def fit(
    owner: Owner, definition: HeadParams, *, source: Source, soups: Mapping[int, Soup]
) -> Iterator[tuple[int, bytes]]:
    """Each seed and its head file, from the few-shot images alone; a shard is a seed."""

    def fitted(soup: Soup, seed: int) -> bytes:
        template = source.template
        class_names = source.class_names
        texts = class_texts(
            soup, text_encoder=source.text_encoder, template=template, class_names=class_names
        )  # (C, D)
        scale = logit_scale_of(source.encoder.model)
        # What encoding left free lies in pieces that a table of images by classes does not fit in.
        give_back()
        shots, note = checked(*source.images_of(seed), texts=texts.T, logit_scale=scale, names=class_names)
        head = best_head(
            shots,
            kind=definition.kind,
            soup=soup,
            template=template,
            class_names=class_names,
            encoder=source.encoder.id,
            note=note,
        )
        return head.as_bytes()

    shards = {}
    for seed, soup in soups.items():
        inputs = [identity_of_source(source, seed=seed), definition.kind, soup.as_json()]
        shards[seed] = Shard(owner, inputs, partial(fitted, soup, seed))
    return finish_by_key(shards, label="head", unit="seed")


def counted(head: Head, *, name: str, soup: str, test: ImageFeatures) -> dict[str, object]:
    """A line of `wsoup.evaluate.counts.SCHEMA` for variant `name` on the row of `soup`, and which images are right.

    Predictions are among the classes of the dataset, which may be only some of the head's. How probable they are is not
    known where several classes share a name, and not each of them has a column.
    """
    columns, labels = columns_of(test.class_names, of_head=head.class_names)
    # Made at once: a small result kept from every block would keep malloc from using the block's memory again.
    predicted = np.empty(len(test.labels), dtype=np.int64)
    classifier = head.classifier[:, columns].T[None]  # (1, c, D)
    one_to_one = np.array_equal(labels, np.arange(len(test.class_names)))
    calibration = Calibration(1, device=classifier.device)
    for start in range(0, len(test.labels), IMAGES):
        block = slice(start, start + IMAGES)
        images = torch.from_numpy(test.features[block])
        own = torch.from_numpy(np.minimum(test.labels[block], len(columns) - 1))
        (places,), made = Scores(images, classifier).answers(own, logit_scale=1 / head.temperature)
        predicted[block] = labels[places.numpy()]
        calibration.add(made, right=(places == own)[None])
    right: np.ndarray = predicted == test.labels
    m = len(head.soup.members)
    return {
        "method": row_name(soup),
        "variant": name,
        "mode": "centroid",
        "m": m,
        "offsets": 1,
        "texts": float(m),
        "stored": 0,  # the head's parameters replace the texts
        "seed": head.soup.seed,
        "dataset": test.attributes["dataset"],
        "role": test.attributes["role"],
        "n_correct": int(right.sum()),
        "n_images": len(right),
        "alignment": math.nan,
        "uniformity": math.nan,
        "calibration_error": calibration.errors(len(right))[0] if one_to_one else math.nan,
        "log_likelihood": calibration.log_likelihoods(len(right))[0] if one_to_one else math.nan,
        "right": pack_right(right),
    }


def columns_of(names: Sequence[str], *, of_head: Sequence[str]) -> tuple[list[int], np.ndarray]:
    """The columns of a head that are classes of a dataset, and the dataset's label of each: (c,) int64.

    Classes of one name are told apart by their order. Where the head has another number of them, each of its columns
    with that name stands for the dataset's first.
    """
    in_head = positions_by_name(of_head)
    columns: list[int] = []
    labels: list[int] = []
    for name, own in positions_by_name(names).items():
        columns += in_head[name]
        same_number = len(in_head[name]) == len(own)
        labels += own if same_number else [own[0]] * len(in_head[name])
    # Ties go to the first of the dataset's labels.
    order = np.argsort(labels, kind="stable")
    return [columns[i] for i in order.tolist()], np.asarray(labels)[order]


def judged(heads: Sequence[Head], *, source: Source, test: ImageFeatures) -> dict[str, list[float]]:
    """`rows_in_turn` for a run of one seed that has few test images of its source, else {}.

    No head that is fitted for this is kept, so none of those that are has seen a test image.
    """
    if len(heads) > 1 or len(test.labels) >= FEW:
        return {}
    (seed,) = source.subsets
    prompts = ensemble_prompts(source.template, class_names=source.class_names, templates=ensemble_templates())
    return rows_in_turn(
        heads[0],
        seed=seed,
        source=source,
        features=test.features[:],
        labels=test.labels,
        prompts=prompts,
    )


if __name__ == "__main__":
    stage.run(main)
