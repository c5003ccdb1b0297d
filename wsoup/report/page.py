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
import vl_convert

from wsoup import __version__
from wsoup.check.whole import load_params
from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED, Artifacts
from wsoup.evaluate.rows import soup_label
from wsoup.report import about, plots, scaling
from wsoup.report.changed import changed_by, gallery, moved_classes
from wsoup.report.judgement import Judgement
from wsoup.report.means import MEANS, mean_and_std
from wsoup.report.results import Results
from wsoup.report.run import load_run, tables
from wsoup.report.shown import shown_tables
from wsoup.report.verdict import sentence
from wsoup.soup.soup import Soup

TEMPLATE = Path(__file__).with_name("page.html")
TITLE = "Word soups and descriptor soups"
ROLES = {"source": "the source", "xd": "another label space, XD", "dg": "the source's classes, shifted, DG"}
FIGURES = {
    "gains": "Points gained over the class name only, each soup as cards show it; bars are intervals over images and "
    "seeds, datasets held fixed.",
    "gain_by_cost": "The same against the tokens that a soup's ranking and search encode, mean over seeds: what a kind "
    "of soup costs (log scale, 0 at its left end).",
    "candidates": "Every candidate on the source's few-shot training images, first seed; the grey rule is no text.",
    "transfer": "Each point is one descriptor that nobody selected.",
    "accuracy_by_m": "Means over datasets and seeds; bars are ± one standard deviation over seeds.",
    "parameters": "A soup stores one integer a token, a finetuned model its trained weights.",
    "members_kl": "How far a soup's members stay apart in training: KL divergence between their predictions, in nats.",
    "training": "Of the averaged weights, on the same few test images of every dataset; bars: ± one standard deviation "
    "over seeds.",
    "landscape": "First seed. From left to right the text turns from one member of the word soup (A) into another (B), "
    "upwards the prompt from its start into the trained one. Values between the measured points are linear.",
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
        "sentence": sentence(run.judgement),
        "roles": ROLES,
        "headlines": headlines(results, judgement=run.judgement),
        "tables": shown_tables(
            tables(run, saved=scaling.saved(artifacts.reports)), source=results.datasets("source")[0]
        ),
        "open_tables": 2 if len(results.variants) == 1 and results.halves is None else 3,
        "figures": figures,
        "soups": [_soup(name, soup) for name, of_seeds in run.soups.items() for soup in of_seeds],
        "gallery": gallery(artifacts, params=params),
        "changed_by": f"{changed_by(artifacts)} (centroid, seed {params.seeds[0]})",
        "moved": moved_classes(artifacts, params=params),
        "facts": about.facts(results),
        **about.datasets(results, artifacts=artifacts),
        "mixed": about.mixed(results),
        **about.timings_shown(store.cache_dir() / "timings.jsonl"),
        "params": Path(params_file).read_text(encoding="utf-8"),
        "bundle": vega_bundle(),
    }
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters["script_json"] = script_json
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(context)
    with store.replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    for figure in figures:
        with store.replacing(Path(path).parent / "figures" / f"{figure['name']}.svg") as temporary:
            temporary.write_text(vl_convert.vegalite_to_svg(_at_fixed_width(figure["spec"])), encoding="utf-8")
    return Path(path)


def vega_bundle() -> str:
    """Vega, Vega-Lite and vega-embed as one script."""
    library: Any = vl_convert  # its type stub asks for an argument that is optional
    bundle: str = library.javascript_bundle()
    return bundle


def script_json(value: Any) -> str:
    """JSON that may stand inside a script element: no ``<`` is left that could end it."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True).replace("<", "\\u003c")


def headlines(results: Results, *, judgement: Judgement) -> list[dict[str, str]]:
    """The means of the class name alone and of each soup, with what they gain and its interval."""
    cards = []
    for row in (row for row in results.table if row.card is not None):
        name, cells = str(row.card), results.cells(PRETRAINED, row)
        for role, title in MEANS.items():
            names = results.datasets(role)
            if cells is None or not names:
                continue
            mean, _ = mean_and_std(cells.of(names))
            card = {"name": name, "title": title, "value": f"{mean:.2f} %", "gain": ""}
            for judged in judgement.comparisons:
                if (judged.soup, judged.over, judged.role) == (row.method.soup, "class_name", role):
                    fixed = judged.fixed
                    card["gain"] = f"{fixed.mean:+.2f} points ({fixed.low:+.2f} to {fixed.high:+.2f})"
            cards.append(card)
        if cells is not None and results.halves is not None:
            mean, _ = mean_and_std(results.harmonic(cells))
            cards.append({"name": name, "title": "H of base and new", "value": f"{mean:.2f} %", "gain": ""})
    return cards


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
