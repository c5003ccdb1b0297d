"""The mean text feature of each class, by row, each distinct text encoded once.

Each block of features is added to the rows that use its texts, then dropped. Of rows whose texts are weighed by images
(`wsoup.evaluate.weighed`) the features of every text are kept as well.

The token offset trick puts t null tokens before the descriptor, as in the paper's example: "a photo of a dog, ! ! ! ! !
which may be large or small." The authors' code (Chris210634/word_soups, source/models.py) keeps the period and the
end-of-text token of the bare prompt before them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.evaluate.rows import Row
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.templates import template_blocks

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
