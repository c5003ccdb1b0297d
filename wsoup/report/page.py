"""``wsoup report``: one self-contained HTML page of a run. No network: Vega and its data are inside.

The page is written by the command and not by the stage, because it also shows seconds and the machine, which differ
from run to run; everything under DVC is the same for the same inputs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import vl_convert

from wsoup import __version__
from wsoup.check.whole import load_params
from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.evaluate.rows import soup_label, soup_title
from wsoup.report import about, plots, scaling
from wsoup.report.changed import changed_by, gallery, moved_classes
from wsoup.report.judgement import Judgement
from wsoup.report.means import harmonic
from wsoup.report.run import load_run, tables
from wsoup.report.shown import shown_tables
from wsoup.report.tables import SHOWN
from wsoup.report.verdict import OVER, headline
from wsoup.soup.soup import Soup

TEMPLATE = Path(__file__).with_name("page.html")
TITLE = "Word soups and descriptor soups"
ROLES = {"source": "the source", "xd": "another label space, XD", "dg": "the source's classes, shifted, DG"}
FIGURES = {
    "gains": "Points gained over the class name only, means over seeds; bars are intervals over images and seeds, "
    "datasets held fixed.",
    "gain_by_cost": "The same against the tokens that a soup's ranking and search encode, mean over seeds: what a kind "
    "of soup costs.",
    "candidates": "Every candidate on the source's few-shot training images, first seed; the grey rule is no text.",
    "transfer": "Each point is one descriptor that nobody selected.",
    "accuracy_by_m": "Means over datasets and seeds; bars are ± one standard deviation over seeds.",
    "parameters": "A soup stores one integer a token, a finetuned model its trained weights.",
    "members_kl": "How far a soup's members stay apart in training: KL divergence between their predictions, in nats.",
    "training": "Of the averaged weights, on the same few test images of every dataset; bars: ± one standard deviation "
    "over seeds.",
    "landscape": "First seed. Of a trained prompt: to the right the text turns from a member of the word soup (A) into "
    "another (B), upwards the prompt from its start into the trained one. Of a soft descriptor: from the tuned tokens "
    "to the right to the soup's first member (B), upwards to random words (A). Values between points are linear.",
    "growth": "A line is one chain of a word soup, or one descriptor soup; hover for the word.",
}


def write_page(
    path: str | Path, *, params_file: str | Path = "params.yaml", root: str | Path = ".", title: str = TITLE
) -> Path:
    """Write the page of the run in folder `root` to `path`, from its artifacts and reports/plots.

    Each figure is also written beside it as ``figures/<name>.svg``.

    Raises:
        MissingError: a stage has not run.
    """
    artifacts, params = Artifacts(Path(root)), load_params(params_file)
    run = load_run(params, artifacts=artifacts)
    results, figures = run.results, _figures(artifacts.reports / "plots")
    context = {
        "version": __version__,
        "title": title,
        "headline": headline(run.judgement),
        "roles": ROLES,
        "cards": cards(run.judgement, halves=results.halves),
        "tables": shown_tables(
            tables(run, saved=scaling.saved(artifacts.reports)), source=results.datasets("source")[0]
        ),
        "open_tables": 2 if len(results.variants) == 1 and results.halves is None else 3,
        "figures": figures,
        "soups": [_soup(name, soup) for name, of_seeds in run.soups.items() for soup in of_seeds],
        "gallery": gallery(artifacts, params=params),
        "changed_by": changed_by(artifacts),
        "moved": moved_classes(artifacts, params=params),
        "facts": about.facts(results),
        **about.datasets(results, artifacts=artifacts),
        "mixed": about.mixed(results),
        **about.timings_shown(store.cache_dir() / "timings.jsonl"),
        "params": Path(params_file).read_text(encoding="utf-8"),
        "bundle": vl_convert.javascript_bundle(),  # type: ignore[call-arg]  # its stub asks for what is optional
    }
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {"script_json": script_json, "side": side}
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(context)
    store.write_bytes(path, page.encode())
    for figure in figures:
        svg = vl_convert.vegalite_to_svg(_at_fixed_width(figure["spec"]))
        store.write_bytes(Path(path).parent / "figures" / f"{figure['name']}.svg", svg.encode())
    return Path(path)


def script_json(value: Any) -> str:
    """JSON that may stand inside a script element: no ``<`` is left that could end it."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True).replace("<", "\\u003c")


def side(gain: float | None) -> str:
    """The class of a gain on the page: ``gain`` or ``loss``, and ``soft`` where it reads as 0.00 or is none."""
    return "soft" if gain is None or abs(gain) < SHOWN else "gain" if gain > 0 else "loss"


def cards(judgement: Judgement, *, halves: tuple[str, str] | None = None) -> list[dict[str, str]]:
    """What the run's soup and its rivals get right, and what the soup gains over the class name alone.

    A base-to-new run's targets are the new half, and there is a card more for the harmonic mean.
    """
    soup = f"{soup_title(judgement.soup)}, {judgement.mode.replace('_', ' ')} of all seeds"
    made = []
    for asked in judgement.asked:
        place = asked.datasets[0] if len(asked.datasets) == 1 else f"{len(asked.datasets)} other datasets"
        over = asked.over["class_name"]
        gain = f"{over.mean:+.2f} points ({over.low:+.2f} to {over.high:+.2f})"
        made += [_card(OVER[rival], place, accuracy) for rival, accuracy in asked.rivals.items()]
        made.append(_card(soup, place, asked.soup, gain=gain))
    if halves is not None and judgement.targets is not None:
        base, new = ([*asked.rivals.values(), asked.soup] for asked in judgement.asked)
        means = harmonic(np.array(base), np.array(new)).tolist()
        names = [*(OVER[rival] for rival in judgement.source.rivals), soup]
        made += [_card(name, "harmonic mean", mean) for name, mean in zip(names, means, strict=True)]
    return made


def _card(name: str, place: str, accuracy: float, *, gain: str = "") -> dict[str, str]:
    return {"name": name, "title": place, "value": f"{accuracy:.2f} %", "gain": gain}


def _figures(folder: Path) -> list[dict[str, Any]]:
    data = {name: store.read_json(store.require(folder / f"{name}.json", made_by="report")) for name in FIGURES}
    return [
        {"name": name, "caption": FIGURES[name], "spec": plots.figure(name, rows)}
        for name, rows in data.items()
        if rows
    ]


def _at_fixed_width(specification: Mapping[str, Any]) -> dict[str, Any]:
    """The same for paper: on white, and as wide as a README where the page's width would decide."""
    width = {"width": 640} if specification.get("width") == "container" else {}
    return {**specification, **width, "background": "white"}


def _soup(name: str, soup: Soup) -> dict[str, Any]:
    """Its members, how each grew in the search, and what it gets right as it is used."""
    members, before = [], None
    for member in soup.members:
        steps, before = [], before if soup.together else None
        for step in member.trace:
            after = 100.0 * step.n_correct / (member.n_images or 1)
            steps.append({"added": step.added, "after": after, "gain": None if before is None else after - before})
            before = after
        over = None
        if member.n_correct is not None and soup.class_name_correct is not None:
            over = member.n_correct - soup.class_name_correct
        members.append({"text": member.text, "steps": steps, "n_correct": member.n_correct, "over": over})
    images = next((member.n_images for member in soup.members if member.n_images), None)
    return {
        "title": f"{soup_label(name)}, seed {soup.seed}",
        "members": members,
        "n_images": images,
        "name_correct": soup.class_name_correct,
        "worse": soup.no_better,
        "together": soup.together,
    }
