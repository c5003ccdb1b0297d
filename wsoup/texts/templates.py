"""Features of whole templates with every class, exact and far cheaper than one text after the other.

Templates differ before the class name, so that no class prompt is common to them. What is: the beginnings ("a photo of
a", computed once for all classes), and after a beginning the first words of class names. So templates with one ending
(most end in ".") are a grid of their beginnings with every class name and that ending. Templates that share a beginning
and differ after the class name are a grid as descriptors are: class prompts with every ending.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.texts.encoder import GRID_BYTES, PromptEncoder


class Shared(NamedTuple):
    """What some templates have in common: what comes before the class name, or else what comes after it."""

    before: str | None
    after: str | None


def encode_templates(text_encoder: PromptEncoder, templates: Sequence[str], class_names: Sequence[str]) -> Tensor:
    """Features of P templates, each with one ``{}``, filled with each of C class names: (P, C, D), L2-normalised."""
    parts: dict[int, Tensor] = {}
    for shared, places in by_shared_part(templates).items():
        befores, afters = zip(*(templates[i].split("{}") for i in places), strict=True)
        if shared.before is not None:
            stems = [shared.before + name for name in class_names]
            grid = text_encoder.encode_grid(stems, afters)  # (p, C, D)
        else:
            # Tokens never merge across white space, which therefore goes to the class name.
            heads = [before.removesuffix(" ") for before in befores]
            names = [f" {name}{shared.after}" for name in class_names]
            grid = text_encoder.encode_grid(heads, names).transpose(0, 1)  # (p, C, D)
        parts |= zip(places, grid, strict=True)
    if not parts:
        return text_encoder.encode_grid(list(class_names), [])
    return torch.stack([parts[i] for i in range(len(templates))])


def encode_members(
    text_encoder: PromptEncoder, texts: Sequence[str], *, template: str, class_names: Sequence[str]
) -> Tensor:
    """Features of texts of either form with every class: (M, C, D), in the order given.

    Args:
        text_encoder: encodes prompts.
        texts: M texts; those that are templates themselves have no use for the dataset's.
        template: of the dataset.
        class_names: C names.
    """
    parts: dict[int, Tensor] = {}
    whole = [i for i, text in enumerate(texts) if prompts.is_template(text)]
    parts |= zip(whole, encode_templates(text_encoder, [texts[i] for i in whole], class_names), strict=True)
    followers = [i for i in range(len(texts)) if i not in parts]
    endings = [prompts.ending(texts[i], period=True) for i in followers]
    grid = text_encoder.encode_grid(prompts.stems(template, class_names), endings)
    if not whole:
        return grid
    parts |= zip(followers, grid, strict=True)
    return torch.stack([parts[i] for i in range(len(texts))])


def template_blocks(
    text_encoder: PromptEncoder,
    templates: Sequence[str],
    class_names: Sequence[str],
    *,
    block_bytes: int = GRID_BYTES,
) -> Iterator[tuple[slice, Tensor]]:
    """`encode_templates` in bounded memory: (which templates, their features (n, C, D)), in the order given."""
    size = text_encoder.encode([""]).shape[1]
    step = max(1, block_bytes // (4 * size * max(1, len(class_names))))
    for start in range(0, len(templates), step):
        which = slice(start, min(start + step, len(templates)))
        yield which, encode_templates(text_encoder, templates[which], class_names)


def by_shared_part(templates: Sequence[str]) -> dict[Shared, list[int]]:
    """Indices of templates by the part that more of them share; a beginning, if it does not end in a space.

    >>> by_shared_part(["art of a {}.", "a photo of a {}.", "art of a {} at night", "art of a {} by day"])
    {Shared(before='art of a ', after=None): [0, 2, 3], Shared(before=None, after='.'): [1]}
    """
    befores: Counter[str] = Counter()
    afters: Counter[str] = Counter()
    for template in templates:
        before, after = template.split("{}")
        befores[before] += 1
        afters[after] += 1
    groups: dict[Shared, list[int]] = {}
    for i, template in enumerate(templates):
        before, after = template.split("{}")
        by_beginning = befores[before] > afters[after] or not before.endswith(" ")
        shared = Shared(before, None) if by_beginning else Shared(None, after)
        groups.setdefault(shared, []).append(i)
    return groups
