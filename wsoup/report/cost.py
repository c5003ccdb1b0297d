"""What a soup gains against what it costs: the tokens that its ranking and search encode (`search.rank.cost`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wsoup.evaluate.rows import soup_title
from wsoup.report.tables import Table
from wsoup.soup.soup import Soup

PARTS = {"ranking": "ranked", "search": "searched"}
"""Parts of a cost, and how tables call what each did to texts and tokens."""


def cost_table(gains: Sequence[Mapping[str, Any]], *, soups: Mapping[str, Sequence[Soup]]) -> Table:
    """Texts and tokens of every soup, means over seeds, beside its gains over the class name only.

    Args:
        gains: `wsoup.report.verdict.gains`.
        soups: all seeds of each, by its name; those whose files know no cost are left out.
    """
    lines = []
    for title, of_seeds in _known(soups).items():
        line: dict[str, Any] = {"soup": title, "thousand tokens": _tokens(of_seeds) / 1e3}
        for part, said in PARTS.items():
            line[f"texts {said}"] = round(float(np.mean([soup.cost[part].texts for soup in of_seeds])))
            line[f"thousand tokens {said}"] = float(np.mean([soup.cost[part].tokens for soup in of_seeds])) / 1e3
        lines.append(line | {f"gain, {row['mean']}": row["gain"] for row in gains if row["soup"] == title})
    columns = ["soup", *(f"{what} {said}" for said in PARTS.values() for what in ("texts", "thousand tokens"))]
    columns += ["thousand tokens", *(f"gain, {title}" for title in dict.fromkeys(row["mean"] for row in gains))]
    notes = [
        "Means over seeds. A text is encoded with every class: tokens are those of all classes, behind class prompts.",
        "A ranking counts in every soup that begins with it. Gains are points over the class name only, as cards show.",
    ]
    return Table("cost", "What soups cost", columns, lines, notes)


def gain_by_cost(gains: Sequence[Mapping[str, Any]], *, soups: Mapping[str, Sequence[Soup]]) -> list[dict[str, Any]]:
    """Gain over the class name only against its cost: rows of `gains` (see `cost_table`) with {tokens}.

    `tokens` are those of a soup's ranking and search, mean over seeds. Soups whose files know no cost are left out.
    """
    tokens = {title: round(_tokens(of_seeds)) for title, of_seeds in _known(soups).items()}
    return [{**row, "tokens": tokens[row["soup"]]} for row in gains if row["soup"] in tokens]


def _known(soups: Mapping[str, Sequence[Soup]]) -> dict[str, Sequence[Soup]]:
    """Soups that know their cost, by what tables call them."""
    return {soup_title(name): of_seeds for name, of_seeds in soups.items() if all(soup.cost for soup in of_seeds)}


def _tokens(of_seeds: Sequence[Soup]) -> float:
    """Of ranking and search together, mean over seeds."""
    return float(np.mean([sum(cost.tokens for cost in soup.cost.values()) for soup in of_seeds]))
