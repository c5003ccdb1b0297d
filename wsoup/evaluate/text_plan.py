"""What the mean texts of all rows take, in parts that are kept for a run after a kill, and their result.

All rows are collected first: each distinct text is encoded once with each distinct class prompt of all datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from wsoup.disk import store
from wsoup.disk.shards import Shard
from wsoup.evaluate import class_means
from wsoup.evaluate.class_means import Encoded, mean_of_stems, mean_prompts
from wsoup.evaluate.classifiers import check_rows
from wsoup.evaluate.rows import Row
from wsoup.evaluate.testsets import ClassPrompts, TestSet
from wsoup.runtime.work import finish_by_key
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.logit_scale import logit_scale_of
from wsoup.towers.run import Run


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

    def with_class_weights(self, trained: Row, directions: Mapping[str, Tensor]) -> Classifiers:
        """With trained class weights in place of the mean text of one row, for classes of any dataset that have some.

        So 2SFS answers (FarinaMatteo/rethinking_fewshot_vlms, fs/twostage.py, `infer`): a class of the source by its
        weights, any other by its text. Only the direction is replaced, for a score mean is as long as its texts agree.

        Args:
            trained: the row of the texts that the weights began as; one of `rows`.
            directions: (D,) by class name.
        """
        means = self.means.clone()
        of_row = means[list(self.rows).index(trained)]  # (S, D), a view
        for position, name in enumerate(self.prompts.names):
            if name in directions:
                of_row[position] = of_row[position].norm() * directions[name]
        return replace(self, means=means)

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
    """What `evaluation.mean_texts` computes, in blocks of class prompts, and of single rows with prompts by class.

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
    for start in range(0, len(classes.stems), class_means.CLASS_PROMPTS):
        block = slice(start, start + class_means.CLASS_PROMPTS)
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


def _packed(compute: Callable[[], Encoded]) -> bytes:
    arrays = {name: features.cpu().numpy() for name, features in compute()._asdict().items()}
    return store.pack_arrays(arrays)
