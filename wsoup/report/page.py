"""``wsoup report``: one self-contained HTML page of a run. No network: Vega and its data are inside.

The page is written by the command and not by the stage, because it also shows seconds and the machine, which differ
from run to run; everything under DVC is the same for the same inputs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import vl_convert

from wsoup import __version__
from wsoup.check.whole import Params, load_params
from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED, Artifacts
from wsoup.evaluate.rows import soup_label
from wsoup.report import ablations, about, analyses, plots, scaling
from wsoup.report.accuracy import finetuned_table, paper_tables, zero_shot_table
from wsoup.report.cost import cost_table
from wsoup.report.gallery import changed_by, gallery
from wsoup.report.judgement import Judgement, gains, optimism_table, sentence, verdict_table
from wsoup.report.means import MEANS, mean_and_std
from wsoup.report.moved import moved_classes
from wsoup.report.results import Results
from wsoup.report.run import load_run
from wsoup.report.shown import shown_tables
from wsoup.report.summaries import paired_table, size_table
from wsoup.report.tables import Table
from wsoup.soup.soup import Soup

TEMPLATE = Path(__file__).with_name("page.html")
TITLE = "Word soups and descriptor soups"
ROLES = {"source": "the source", "xd": "another label space, XD", "dg": "the source's classes, shifted, DG"}
FIGURES = {
    "gains": "Points gained over the class name only, each soup as cards show it; bars are intervals over images and "
    "seeds, datasets held fixed.",
    "gain_by_cost": "The same against the tokens that a soup's ranking and search encode, mean over seeds: what a kind "
    "of soup costs (log scale, 0 at its left end). Soups of nearly equal cost stand side by side.",
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
    root = Path(root)
    artifacts = Artifacts(root)
    params = load_params(params_file)
    results, judgement = load_run(params, folder=artifacts.results)
    figures = _figures(root / "reports/plots")
    soups = plots.read_soups(artifacts, soups=list(params.soups), seeds=params.seeds)
    tables = _tables(results, judgement=judgement, soups=soups, params=params, artifacts=artifacts)
    context = {
        "version": __version__,
        "title": title,
        "sentence": sentence(judgement),
        "roles": ROLES,
        "headlines": headlines(results, judgement=judgement),
        "tables": shown_tables(tables, source=results.datasets("source")[0]),
        "open_tables": 2 if len(results.variants) == 1 and results.halves is None else 3,
        "figures": figures,
        "soups": [_soup(name, soup) for name, of_seeds in soups.items() for soup in of_seeds],
        "gallery": gallery(artifacts, params=params),
        "changed_by": f"{changed_by(artifacts)} (centroid, seed {params.seeds[0]})",
        "moved": moved_classes(artifacts, params=params),
        "facts": about.facts(results),
        **about.datasets_shown(results, artifacts=artifacts),
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
                    low, high = judged.comparison.fixed.interval(judgement.confidence)
                    card["gain"] = f"{judged.comparison.fixed.mean:+.2f} points ({low:+.2f} to {high:+.2f})"
            cards.append(card)
        if cells is not None and results.halves is not None:
            mean, _ = mean_and_std(results.harmonic(cells))
            cards.append({"name": name, "title": "H of base and new", "value": f"{mean:.2f} %", "gain": ""})
    return cards


def _tables(
    results: Results,
    *,
    judgement: Judgement,
    soups: Mapping[str, Sequence[Soup]],
    params: Params,
    artifacts: Artifacts,
) -> list[Table]:
    made = [verdict_table(judgement)]
    made += [] if results.halves is None else [analyses.base_to_new(results, halves=results.halves)]
    made.append(zero_shot_table(results))
    if results.variants != [PRETRAINED]:
        made += [finetuned_table(results), *paper_tables(results)]
        made += [ablations.diversity(results, methods=params.finetune.methods)]
    report = params.report
    texts = artifacts.results / PRETRAINED / "texts.parquet"
    return [
        *made,
        optimism_table(judgement),
        cost_table(gains(judgement), soups=soups),
        paired_table(results, samples=report.bootstrap_samples, confidence=report.confidence),
        *scaling.saved(artifacts.reports),
        *([analyses.given_texts(texts, results=results)] if params.evaluate.texts else []),
        analyses.single_texts(texts, results=results),
        analyses.alignment(results),
        analyses.parameters(results, methods=params.finetune.methods),
        size_table(results),
    ]


def _figures(folder: Path) -> list[dict[str, Any]]:
    figures = []
    for name, caption in FIGURES.items():
        rows = store.read_json(store.require(folder / f"{name}.json", made_by="report"))
        if rows:
            figures.append({"name": name, "caption": caption, "spec": plots.figure(name, rows)})
    return figures


def _at_fixed_width(specification: Mapping[str, Any]) -> dict[str, Any]:
    """The same for paper: on white, and as wide as a README where the page's width would decide."""
    width = {"width": 640} if specification.get("width") == "container" else {}
    return {**specification, **width, "background": "white"}


def _soup(name: str, soup: Soup) -> dict[str, Any]:
    """Its members, how each grew in the search, and what it gets right as it is used."""
    members = []
    before = None
    for member in soup.members:
        steps = []
        if soup.kind != "greedy":  # whose members are counted with those before them
            before = None
        for step in member.trace:
            after = 100.0 * step.n_correct / (member.n_images or 1)
            steps.append({"added": step.added, "after": after, "gain": None if before is None else after - before})
            before = after
        over = None
        if member.n_correct is not None and soup.class_name_correct is not None:
            over = member.n_correct - soup.class_name_correct
        members.append({"text": member.text, "steps": steps, "n_correct": member.n_correct, "over": over})
    images = next((member.n_images for member in soup.members if member.n_images), None)
    about = {"n_images": images, "name_correct": soup.class_name_correct, "worse": soup.no_better}
    about["together"] = soup.kind == "greedy"
    return {"title": f"{soup_label(name)}, seed {soup.seed}", "members": members, **about}
