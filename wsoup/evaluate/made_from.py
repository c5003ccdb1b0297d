"""What a row of the tables is made from: files of stages, and the keys of the stage that evaluates it.

The graph of stages says which keys of params.yaml decide those files. So `wsoup compare` knows which rows an edited key
feeds, and the tables which of the paper's settings a row depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wsoup.base.errors import ParamsError
from wsoup.base.validation import nearest
from wsoup.core.modes import SEES_IMAGES, WEIGHINGS
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.rows import CLASS_NAME, GIVEN, TEMPLATES, Method, methods, shown_soup, template_method
from wsoup.params.graph import Graph

IMAGES = "artifacts/embeddings/pretrained"
POOLS = "artifacts/pools"
FEW_SHOT = ("seeds", "fewshot")
"""Sections that choose the few-shot images, which are in a dataset's files, too: no test image depends on them."""
LISTS = ("path", "paths", "count")
"""Keys of a pool by which its texts are read."""
OFFSETS = ("evaluate.offsets", "evaluate.offset_formula")
WEIGHED = tuple(f"_{way}" for way in WEIGHINGS)
USE_A_BANK = tuple(f"_{way}" for way in SEES_IMAGES)
"""Endings of rows: those with weighted texts, and of these those whose weights depend on the few-shot images."""


@dataclass(frozen=True)
class MadeFrom:
    """What a row is made from.

    Attributes:
        outs: files and folders of stages.
        keys: of params.yaml, besides those that decide `outs`.
        pools: where its texts come from.
        selected: whether few-shot images were used for its texts or weights.
    """

    outs: tuple[str, ...]
    keys: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    selected: bool = False

    def deciding(self, graph: Graph) -> list[str]:
        """The keys of params.yaml that decide the row, each once."""
        keys: dict[str, None] = {}
        for key in graph.deciding(*self.outs):
            if key in FEW_SHOT and not self.selected:
                continue
            # Stage `candidates` makes both pools. Their periods are another matter, of stage `score`.
            if key == "candidates":
                keys["candidates.on_long_text"] = None
                for pool in self.pools:
                    keys |= dict.fromkeys([f"candidates.{pool}.{name}" for name in LISTS])
            else:
                keys[key] = None
        return [*keys, *self.keys]


def made_from(variant: str, row: str, *, params: Mapping[str, Any]) -> MadeFrom:
    """What a row is made from.

    Args:
        variant: ``pretrained``, or the name of a finetuned method or a head.
        row: its name in the tables, such as ``word_soup_offsets``.
        params: sections `soups`, `finetune` and `heads` of params.yaml.

    Raises:
        ParamsError: no run with these soups has such a row.
    """
    soups = params.get("soups") or {}
    tuned = (params.get("finetune") or {}).get("methods") or {}
    heads = params.get("heads") or {}
    outs = [IMAGES]
    keys: list[str] = []
    used: dict[str, None] = {}  # soups
    pools: tuple[str, ...] = ()
    if variant in tuned:
        outs.append(f"artifacts/finetuned/{variant}")
        used[tuned[variant]["soup"]] = None
    elif variant in heads:
        keys.append(f"heads.{variant}")
        used[heads[variant]["soup"]] = None
    method = _method_of(row, soups=list(soups))
    if method is not None:
        pools = method.pools
        keys += method.keys
        if method.drawn:
            keys.append("evaluate.baseline_m" if variant == PRETRAINED else "evaluate.tuned_baseline_m")
        if row.endswith("_offsets"):
            keys += OFFSETS
        if row.endswith(WEIGHED):
            keys.append("evaluate.weighed")
        if pools:
            outs.append(POOLS)
        if method.soup is not None:
            used[method.soup] = None
        if method.as_long and soups:
            used[shown_soup(soups)] = None
    elif row == GIVEN:
        keys.append("evaluate.texts")
    elif row.endswith(TEMPLATES):
        keys += template_method(row.removesuffix(TEMPLATES)).keys
    else:
        known = [method.name for method in methods(list(soups))]
        raise ParamsError(f"there is no row {row!r}; {nearest(row, known=known)}")
    used.pop(CLASS_NAME.name, None)
    outs += [f"artifacts/soups/{soup}" for soup in used]
    pools += tuple(str(soups[soup].get("pool")) for soup in used if soup in soups)
    selected = bool(used) or variant != PRETRAINED or row.endswith(USE_A_BANK)
    return MadeFrom(tuple(outs), tuple(keys), tuple(dict.fromkeys(pools)), selected)


def _method_of(row: str, *, soups: list[str]) -> Method | None:
    """The source of a row's texts: ``word_soup_offsets`` is one of ``word_soup``."""
    named = [method for method in methods(soups) if row == method.name or row.startswith(f"{method.name}_")]
    return max(named, key=lambda method: len(method.name), default=None)
