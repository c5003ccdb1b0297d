"""What a soup gains against what it costs: the tokens that its ranking and search encode (`search.rank.cost`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wsoup.evaluate.rows import soup_title
from wsoup.report.tables import Table
from wsoup.soup.soup import Soup

PARTS = ("ranking", "search")
KNEE = 1e5
"""Tokens below which the axis of costs turns from a log scale into a linear one that ends at 0; as in its template."""
APART = 0.03
"""Least distance of two soups on the axis of costs, as a share of it."""


def cost_table(gains: Sequence[Mapping[str, Any]], *, soups: Mapping[str, Sequence[Soup]]) -> Table:
    """Texts and tokens of every soup, means over seeds, beside its gains over the class name only.

    Args:
        gains: `wsoup.report.judgement.gains`.
        soups: all seeds of each, by its name; those whose files know no cost are left out.
    """
    columns = ["soup", "texts ranked", "thousand tokens ranked", "texts searched", "thousand tokens searched"]
    columns += ["thousand tokens", *(f"gain, {title}" for title in dict.fromkeys(row["mean"] for row in gains))]
    lines = []
    for name, of_seeds in soups.items():
        if all(soup.cost for soup in of_seeds):
            texts, tokens = (
                [
                    float(np.mean([getattr(soup.cost[part], what) for soup in of_seeds]))
                    for part in ("ranking", "search")
                ]
                for what in ("texts", "tokens")
            )
            figures = [round(texts[0]), tokens[0] / 1e3, round(texts[1]), tokens[1] / 1e3, sum(tokens) / 1e3]
            gained = {f"gain, {row['mean']}": row["gain"] for row in gains if row["soup"] == soup_title(name)}
            lines.append({**dict(zip(columns, [soup_title(name), *figures], strict=False)), **gained})
    notes = [
        "Means over seeds. A text is encoded with every class: tokens are those of all classes, behind class prompts.",
        "A ranking counts in every soup that begins with it. Gains are points over the class name only, as cards show.",
    ]
    return Table("cost", "What soups cost", columns, lines, notes)


def gain_by_cost(gains: Sequence[Mapping[str, Any]], *, soups: Mapping[str, Sequence[Soup]]) -> list[dict[str, Any]]:
    """Gain over the class name only against its cost: rows of `gains` (see `cost_table`) with {tokens, place}.

    `tokens` are those of a soup's ranking and search, mean over seeds; none is 0, which a log scale would lose, so the
    axis is log1p(tokens / `KNEE`). Soups of nearly equal cost are drawn side by side, at `place`. Soups whose files
    know no cost are left out.
    """
    tokens = {
        soup_title(name): float(np.mean([sum(cost.tokens for cost in soup.cost.values()) for soup in of_seeds]))
        for name, of_seeds in soups.items()
        if all(soup.cost for soup in of_seeds)
    }
    shown = [title for title in tokens if any(row["soup"] == title for row in gains)]
    order = sorted(shown, key=tokens.__getitem__)
    at = np.log1p(np.array([tokens[title] for title in order]) / KNEE)
    places = KNEE * np.expm1(_set_apart(at, gap=APART * float(at.max(initial=0.0))))
    place = dict(zip(order, places.tolist(), strict=True))
    return [
        {**row, "tokens": round(tokens[row["soup"]]), "place": round(place[row["soup"]])}
        for row in gains
        if row["soup"] in place
    ]


def _set_apart(places: np.ndarray, *, gap: float) -> np.ndarray:
    """Rising places (n,) moved as little as can be (least squares) so that each two are `gap` apart."""
    steps = gap * np.arange(len(places))
    blocks: list[list[float]] = []  # isotonic regression of what is left between the steps
    for value in (places - steps).tolist():
        blocks.append([value])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    return np.array([float(np.mean(block)) for block in blocks for _ in block]) + steps
