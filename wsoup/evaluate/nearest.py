"""Nearest descriptors: each class with the texts of the pool that are nearest to its name, by text features alone.

No image and no label is looked at. Like classification by description (Menon & Vondrick 2023), but the descriptors are
those of a common pool, and the text tower says which belong to a class.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from wsoup.core import prompts
from wsoup.evaluate.testsets import TestSet
from wsoup.texts.encoder import PromptEncoder


def nearest_prompts(
    tests: Sequence[TestSet], *, pool: Sequence[str], m: int, encoder: PromptEncoder
) -> dict[str, list[list[str]]]:
    """Of each dataset, by its name, C lists of m prompts (or as many as the pool holds); none from an empty pool.

    Nearness is the cosine between the class prompt and the descriptor alone; ties go by pool order. A model without
    weights, which plans count with, takes the first m.
    """
    if not pool:
        return {}
    features, made = encoder.encode(pool), {}  # (P, D)
    for test in tests:
        names = encoder.encode([prompts.prompt(test.template, name, "") for name in test.class_names])  # (C, D)
        order = torch.arange(len(pool)).expand(len(names), -1)
        if not features.is_meta:
            order = (names @ features.T).sort(dim=1, descending=True, stable=True).indices  # (C, P)
        made[test.name] = [
            [prompts.prompt(test.template, name, pool[i]) for i in chosen]
            for name, chosen in zip(test.class_names, order[:, :m].tolist(), strict=True)
        ]
    return made
