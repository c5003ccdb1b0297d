"""Results with counts written by hand, so that every figure is known."""

from __future__ import annotations

from functools import cache
from typing import Any

from evaluate_cases import evaluate_params
from yaml_in_c import safe_load

from wsoup.paper.settings import Settings
from wsoup.pipeline.params import parse_params
from wsoup.pipeline.profiles.paper import Paper
from wsoup.report.labels import table
from wsoup.report.lines import Line
from wsoup.report.results import Results

EVALUATE = evaluate_params(tuned_baseline_m=2)
ROLES = {"imagenet": "source", "dtd": "xd", "eurosat": "xd", "imagenet_a": "dg"}
PAPER_ENCODER = {"model": "ViT-B-16", "pretrained": "openai", "quick_gelu": True}
TOY_ENCODER = {"model": "toy-clip", "pretrained": "toy-clip.safetensors"}


def line(method: str, dataset: str, seed: int, n_correct: int, **values: Any) -> dict[str, Any]:
    """One row of results: 100 images, so that a count is a percentage."""
    usual = {"variant": "pretrained", "mode": "centroid", "m": 1, "offsets": 1, "texts": 1.0, "stored": 2}
    places = {"dataset": dataset, "role": ROLES.get(dataset, "xd"), "seed": seed, "n_images": 100}
    return {**usual, **places, "method": method, "n_correct": n_correct, "alignment": 0.3, "uniformity": 0.2, **values}


def both_seeds(method: str, counts: dict[str, tuple[int, int]], **values: Any) -> list[dict[str, Any]]:
    """Rows of one method, from dataset -> its counts with seeds 1 and 2."""
    return [
        line(method, d, seed, n, **values) for d, pair in counts.items() for seed, n in zip((1, 2), pair, strict=True)
    ]


CLASS_NAME = {"imagenet": (60, 60), "dtd": (40, 40), "eurosat": (20, 20), "imagenet_a": (30, 30)}
WORD_SOUP = {"imagenet": (61, 63), "dtd": (44, 46), "eurosat": (30, 20), "imagenet_a": (31, 35)}


def paper_settings(**changes: Any) -> Settings:
    """Settings of profile paper with the authors' pools; `changes` by dotted key, with two underscores for a dot."""
    base = _profile_paper()
    changed = {key.replace("__", "."): value for key, value in changes.items()}
    below = tuple(f"{key}." for key in changed)
    kept = {}
    for key, value in base.values.items():
        is_above = any(other.startswith(f"{key}.") for other in changed)  # such as optimizer: null
        if not key.startswith(below) and not is_above:
            kept[key] = value
    return Settings({**kept, **changed}, base.pools)


@cache
def _profile_paper() -> Settings:
    raw = safe_load(Paper("/data", gpt_descriptors="/gpt", methods="all").text())
    raw["datasets"]["imagenet"]["fewshot_pickles"] = "/pickles"
    sections = parse_params(raw, origin="paper").model_dump(mode="json", by_alias=True)
    return Settings.of_run(sections, pools=Settings.of_paper().pools)


def results(
    lines: list[dict[str, Any]] | None = None,
    *,
    encoder: dict[str, str] = PAPER_ENCODER,
    roles: dict[str, str] = ROLES,
    unlike: tuple[str, ...] = (),
    layout: str | None = None,
    parameters: dict[str, int] | None = None,
    peak_device_mib: dict[str, int | None] | None = None,
    members_kl: dict[str, list[list[tuple[int, float]]]] | None = None,
    training: dict[str, list[list[Any]]] | None = None,
    soups: tuple[str, ...] = ("descriptor", "word", "word_curve"),
    settings: Settings | None = None,
) -> Results:
    """Class name and a word soup of two, on four datasets with two seeds; `unlike` do not have the paper's split."""
    if lines is None:
        lines = both_seeds("class_name", CLASS_NAME)
        lines += both_seeds("word_soup", dict.fromkeys(CLASS_NAME, (1, 1)), m=1)
        lines += both_seeds("word_soup", WORD_SOUP, m=2, texts=2.0, stored=7)
    facts = {
        name: {
            "n_images": 100,
            "n_classes": 5,
            "layout": layout or f"coop:{name}",
            "paper_comparable": name not in unlike,
            "reason": "99 images, not 100",
        }
        for name in roles
    }
    return Results(
        [Line(**values) for values in lines],
        table=table(soups),
        roles=roles,
        evaluate=EVALUATE,
        facts=facts,
        encoder=encoder,
        parameters=parameters or {},
        peak_device_mib=peak_device_mib or {},
        members_kl=members_kl or {},
        training=training or {},
        settings=settings or paper_settings(),
    )
