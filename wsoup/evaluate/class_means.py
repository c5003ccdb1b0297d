"""From texts to the mean text features of each class, by row, each prompt encoded once.

A classifier (a row of the paper's tables) is a set of texts for each class. Both ways of using it need only the mean
text feature of each class: the score mean is the cosine with that mean, the centroid its normalised direction
(`wsoup.core.class_texts`). So all rows are collected first, each distinct text is encoded once with each distinct class
prompt of all datasets, and every block of features is added to the rows that use its texts, then dropped. Of rows whose
texts are weighed by images (`wsoup.evaluate.weighed`) the features of every text are kept as well.

The token offset trick puts t null tokens before the descriptor, as in the paper's example: "a photo of a dog, ! ! ! ! !
which may be large or small." The authors' code (Chris210634/word_soups, source/models.py) keeps the period and the
end-of-text token of the bare prompt before them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.disk import store
from wsoup.disk.shards import Shard
from wsoup.evaluate.classifiers import check_rows
from wsoup.evaluate.rows import Row
from wsoup.evaluate.testsets import ClassPrompts, TestSet
from wsoup.runtime.work import finish_by_key
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.templates import template_blocks
from wsoup.towers.logit_scale import logit_scale_of
from wsoup.towers.run import Run

CLASS_PROMPTS = 1024
"""Class prompts in one shard, each encoded with every text of every row; classes at a time, if each has own prompts."""


class Encoded(NamedTuple):
    """Features of texts that are computed at one go.

    Attributes:
        means: mean text features, (R, S, D) of R rows with S class prompts or (C, D) of a row with prompts by class.
        members: of the texts that are kept, (P, S, D) or (M, C, D).
    """

    means: Tensor
    members: Tensor


@dataclass(frozen=True)
class Classifiers:
    """Rows with their mean text features.

    Attributes:
        rows: R rows with shared texts.
        prompts: S class prompts.
        means: (R, S, D) float32.
        members: (P, S, D) features of the texts that are kept.
        position: of each of these texts.
        by_class: rows with prompts by class, and the features of those.
        weighed: the rows of which the features of every text are kept.
        logit_scale: of the model that encoded the texts.
    """

    rows: Sequence[Row]
    prompts: ClassPrompts
    means: Tensor
    members: Tensor
    position: Mapping[str, int]
    by_class: Sequence[tuple[Row, Encoded]]
    weighed: Sequence[Row]
    logit_scale: float

    def of(self, test: TestSet) -> list[tuple[Row, Tensor]]:
        """The rows of one dataset, each with the mean text features of its classes (C, D)."""
        of_classes = self.means[:, self.prompts.of(test)]  # (R, C, D)
        rows = list(zip(self.rows, of_classes, strict=True))
        rows += [(row, own.means) for row, own in self.by_class if row.dataset == test.name]
        return rows

    def weighed_of(self, test: TestSet) -> Iterator[tuple[Row, Tensor]]:
        """The weighed rows of one dataset, each with the features of its texts (M, C, D)."""
        for row in self.weighed:
            if row.dataset is None:
                places = [self.position[text] for text in row.texts]
                yield row, self.members[places][:, self.prompts.of(test)]
        for row, own in self.by_class:
            if row.dataset == test.name and row in self.weighed:
                yield row, own.members


PartKey = tuple[Literal["stems", "row"], int]
"""A block of class prompts by its first position, or a row with prompts by class by its index."""


@dataclass(frozen=True)
class Part:
    """Features that are computed at one go, and kept for a run after a kill.

    Attributes:
        inputs: everything that they depend on but the encoder, as JSON values.
        compute: gives them.
    """

    inputs: Sequence[object]
    compute: Callable[[], Encoded]


@dataclass(frozen=True)
class TextPlan:
    """What is to be computed for the mean text features of some rows; nothing of it is computed yet.

    Attributes:
        rows: R rows with shared texts.
        prompts: S class prompts.
        by_class: rows with prompts by class.
        position: of each text whose features are kept.
        weighed: the rows of which the features of every text are kept.
        logit_scale: of the model that encodes the texts.
        parts: blocks of class prompts in their order, then each of `by_class`.
    """

    rows: Sequence[Row]
    prompts: ClassPrompts
    by_class: Sequence[Row]
    position: Mapping[str, int]
    weighed: Sequence[Row]
    logit_scale: float
    parts: Mapping[PartKey, Part]

    def shards(self, run: Run) -> dict[PartKey, Shard]:
        """The parts as shards of a run, whose encoder encodes the texts."""
        shards = {}
        for key, part in self.parts.items():
            inputs = [run.encoder.id, *part.inputs]
            shards[key] = Shard(run.owner, inputs, partial(_packed, part.compute))
        return shards

    def finished(self, run: Run, *, label: str) -> Classifiers:
        """The features: parts that a run before did not finish are computed, others read."""
        encoded = {}
        for key, payload in finish_by_key(self.shards(run), label=label, unit="block"):
            arrays = store.unpack_arrays(payload, origin=label)
            on_device = [torch.from_numpy(arrays[name]).to(run.encoder.device) for name in Encoded._fields]
            encoded[key] = Encoded(*on_device)
        return self.joined(encoded)

    def joined(self, encoded: Mapping[PartKey, Encoded]) -> Classifiers:
        """The features of all rows, from those of all parts."""
        blocks = [features for (kind, _), features in encoded.items() if kind == "stems"]
        singles = [features for (kind, _), features in encoded.items() if kind == "row"]
        return Classifiers(
            rows=self.rows,
            prompts=self.prompts,
            means=torch.cat([block.means for block in blocks], dim=1),
            members=torch.cat([block.members for block in blocks], dim=1),
            position=self.position,
            by_class=list(zip(self.by_class, singles, strict=True)),
            weighed=self.weighed,
            logit_scale=self.logit_scale,
        )


def plan_texts(
    rows: Sequence[Row],
    *,
    tests: Sequence[TestSet],
    text_encoder: PromptEncoder,
    weighed: Sequence[Row] = (),
) -> TextPlan:
    """What `mean_texts` computes, in blocks of class prompts, and of single rows with prompts by class.

    Args:
        rows, tests, text_encoder, weighed: as for `mean_texts`; no image features are read.

    Raises:
        PoolError: a text exceeds the model's context, see `check_rows`.
    """
    # Before anything is encoded: a text that is too long must not show after hours.
    check_rows(rows, tests=tests, tokenizer=text_encoder.tokenizer)
    classes = ClassPrompts(tests)
    shared = [row for row in rows if row.dataset is None]
    by_class = [row for row in rows if row.dataset is not None]
    # Rows of all seeds together: by seed, sums would round otherwise and move counts of near ties.
    deciding = [[row.texts, row.offsets, row.offset_formula] for row in shared]
    distinct: set[str] = set().union(*(row.texts for row in weighed))
    kept = sorted(distinct)
    position = {text: i for i, text in enumerate(kept)}
    parts: dict[PartKey, Part] = {}
    for start in range(0, len(classes.stems), CLASS_PROMPTS):
        block = slice(start, start + CLASS_PROMPTS)
        stems = classes.stems[block]
        names = classes.names[block]
        compute = partial(mean_of_stems, shared, stems=stems, names=names, kept=position, text_encoder=text_encoder)
        parts["stems", start] = Part([deciding, stems, names, kept], compute)
    for r, row in enumerate(by_class):
        keeps = row in weighed
        compute = partial(mean_prompts, row, keeps=keeps, text_encoder=text_encoder)
        parts["row", r] = Part([list(row.prompts), keeps], compute)
    scale = logit_scale_of(text_encoder.model)
    return TextPlan(shared, classes, by_class, position, weighed, scale, parts)


def mean_texts(
    rows: Sequence[Row],
    *,
    tests: Sequence[TestSet],
    text_encoder: PromptEncoder,
    weighed: Sequence[Row] = (),
    run: Run | None = None,
    label: str = "",
) -> Classifiers:
    """Compute the mean text features of all rows.

    Args:
        rows: all rows.
        tests: the datasets.
        text_encoder: encodes the texts.
        weighed: those of the rows of which the features of every text are kept; of rows with prompts by class, each
            class must have as many.
        run: keeps finished parts for a run after a kill; its encoder is the model of `text_encoder`. None keeps none.
        label: of the progress bar.

    Raises:
        PoolError: a text exceeds the model's context, see `check_rows`.
    """
    plan = plan_texts(rows, tests=tests, text_encoder=text_encoder, weighed=weighed)
    if run is not None:
        return plan.finished(run, label=label)
    return plan.joined({key: part.compute() for key, part in plan.parts.items()})


def _packed(compute: Callable[[], Encoded]) -> bytes:
    arrays = {name: features.cpu().numpy() for name, features in compute()._asdict().items()}
    return store.pack_arrays(arrays)


def mean_of_stems(
    rows: Sequence[Row],
    *,
    stems: Sequence[str],
    names: Sequence[str],
    kept: Mapping[str, int],
    text_encoder: PromptEncoder,
) -> Encoded:
    """Mean text features of R rows with each of S class prompts, and the features of the kept texts at no offset.

    Args:
        rows: R rows with shared texts.
        stems: S class prompts without their final period.
        names: the class name in each, for texts that are templates themselves.
        kept: position among the kept texts of each that is kept.
        text_encoder: encodes the texts.
    """
    means: Tensor | None = None
    members: Tensor | None = None
    for texts, weights, blocks, keeps in _passes(rows, stems=stems, names=names, text_encoder=text_encoder):
        users = weights.any(dim=1).nonzero()[:, 0].tolist()
        shares = weights[users]
        for where, block in blocks:
            # Only the first block says how large features are, and on which device.
            if means is None or members is None:
                means = block.new_zeros(len(rows), *block.shape[1:])
                members = block.new_zeros(len(kept), *block.shape[1:])
            if keeps:
                _keep(block, texts[where], kept=kept, members=members)
            added = shares[:, where].to(block.device) @ block.flatten(1)  # (users, S * D)
            means[users] += added.view(len(users), *block.shape[1:])
    if means is None or members is None:
        nothing = torch.zeros(0, len(stems), 0)
        return Encoded(nothing, nothing)
    return Encoded(means, members)


class _Pass(NamedTuple):
    """Texts of one form at one offset.

    Attributes:
        texts: P texts, sorted, so that neighbours share prefixes, which are encoded once.
        weights: (R, P) share of each in the mean of each row.
        blocks: their features with every class, (n, S, D) each, and where each block stands.
        keeps: whether these are the features that are kept of texts.
    """

    texts: list[str]
    weights: Tensor
    blocks: Iterator[tuple[slice, Tensor]]
    keeps: bool


def _passes(
    rows: Sequence[Row], *, stems: Sequence[str], names: Sequence[str], text_encoder: PromptEncoder
) -> Iterator[_Pass]:
    """All texts of the rows: those after a class name by their offset, then templates, which have none."""
    offsets: set[int] = set().union(*(row.offsets for row in rows))
    for offset in sorted(offsets):
        users = [row.texts if offset in row.offsets else () for row in rows]
        distinct: set[str] = set().union(*users)
        texts = sorted(text for text in distinct if not prompts.is_template(text))
        if not texts:
            continue
        weights = mean_weights(users, texts=texts)
        # A row repeats its members at each of its offsets, and every repetition counts the same.
        weights /= torch.tensor([[float(len(row.offsets))] for row in rows])
        if offset:  # null tokens follow the comma
            starts = prompts.with_comma(stems)
            endings = [prompts.after_comma(text, period=True) for text in texts]
        else:
            starts = list(stems)
            endings = [prompts.ending(text, period=True) for text in texts]
        # The first row's goes for all: params.yaml has one, and without an offset it means nothing.
        formula = next(row.offset_formula for row in rows if offset in row.offsets)
        blocks = text_encoder.grid_blocks(starts, endings, token_offset=offset, offset_formula=formula)
        yield _Pass(texts, weights, blocks, keeps=offset == 0)
    groups = [row.texts for row in rows]
    distinct = set().union(*groups)
    templates = sorted(filter(prompts.is_template, distinct))
    if templates:
        blocks = template_blocks(text_encoder, templates, names)
        yield _Pass(templates, mean_weights(groups, texts=templates), blocks, keeps=True)


def _keep(block: Tensor, texts: Sequence[str], *, kept: Mapping[str, int], members: Tensor) -> None:
    """Copy features of a block of texts (n, S, D) to the places of those that are kept."""
    for text, features in zip(texts, block, strict=True):
        if text in kept:
            members[kept[text]] = features


def mean_weights(groups: Sequence[Sequence[str]], *, texts: Sequence[str]) -> Tensor:
    """Weights (G, P) that average text features within each of G groups, of the P texts that are given.

    A repeated text counts repeatedly; the rest of a group counts as if it were given.
    """
    position = {text: i for i, text in enumerate(texts)}
    weights = torch.zeros(len(groups), len(texts))
    for g, group in enumerate(groups):
        for text in group:
            if text in position:
                weights[g, position[text]] += 1.0 / len(group)
    return weights


def mean_prompts(row: Row, *, text_encoder: PromptEncoder, keeps: bool = False) -> Encoded:
    """Mean text feature of each class, for a row with prompts by class, and if it keeps them that of every prompt."""
    means = []
    members = []
    for start in range(0, len(row.prompts), CLASS_PROMPTS):
        groups = row.prompts[start : start + CLASS_PROMPTS]
        distinct: set[str] = set().union(*groups)
        unique = sorted(distinct)
        features = text_encoder.encode(unique)  # (P, D)
        weights = mean_weights(groups, texts=unique).to(features.device)
        means.append(weights @ features)
        if keeps:
            position = {text: i for i, text in enumerate(unique)}
            for group in groups:
                members.append(features[[position[text] for text in group]])  # (M, D)
    of_classes = torch.cat(means)
    if not keeps:
        return Encoded(of_classes, of_classes[:0])
    return Encoded(of_classes, torch.stack(members, dim=1))
