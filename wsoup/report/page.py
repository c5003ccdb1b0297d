"""``wsoup report``: one self-contained HTML page of a run. It needs no network: Vega and its data are inside.

A command writes the page, not a stage, because it shows seconds and the machine, which differ from run to run;
everything under DVC is the same for the same inputs.
"""

import json
import os
import platform
from pathlib import Path
from typing import Any

import jinja2
import vl_convert
import yaml

from wsoup import __version__
from wsoup.check.whole import load_params
from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED, Artifacts
from wsoup.evaluate.rows import CLASS_NAME
from wsoup.images.reuse import differing
from wsoup.report import plots
from wsoup.report.gallery import changed_by, gallery, moved_classes
from wsoup.report.labels import soup_label, soup_title
from wsoup.report.results import Results
from wsoup.report.run import costs, load_run, tables, timings
from wsoup.report.tables import SHOWN, page_tables
from wsoup.report.terminal import headline
from wsoup.report.verdict import RIVALS, Judgement
from wsoup.soup.soup import Soup

TEMPLATE = Path(__file__).with_name("page.html")
TITLE = "Word soups and descriptor soups"
ROLES = {"source": "the source", "xd": "another label space, XD", "dg": "the source's classes, shifted, DG"}
FIGURES = {
    "gains": "Points gained over the class name only, means over seeds; bars are intervals over images and seeds, "
    "datasets held fixed.",
    "gain_by_cost": "The same against the tokens that a soup's ranking and search encode, mean over seeds: what each "
    "kind of soup costs.",
    "candidates": "Every candidate on the source's few-shot training images, first seed; the grey rule is the class "
    "name alone.",
    "transfer": "Each point is one descriptor that nobody selected.",
    "accuracy_by_m": "Means over datasets and seeds; bars are ± one standard deviation over seeds.",
    "parameters": "A soup stores one integer per token, a finetuned model its trained weights.",
    "members_kl": "How far a soup's members stay apart in training: KL divergence between their predictions, in nats.",
    "training": "The averaged weights on the same few test images of every dataset; bars are ± one standard deviation "
    "over seeds.",
    "landscape": "First seed. For a trained prompt, the text changes to the right from one member of the word soup (A) "
    "to another (B), and the prompt changes upwards from its start to the trained one. For a soft descriptor, tuned "
    "tokens change to the right to the soup's first member (B), upwards to random words (A). Values between points are "
    "interpolated linearly.",
    "growth": "Each line is one chain of a word soup, or one descriptor soup; hover for the word.",
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
    run_tables = tables(run)
    timings_file = store.cache_dir() / "timings.jsonl"
    context = {
        "version": __version__,
        "title": title,
        "headline": headline(run.judgement),
        "roles": ROLES,
        "cards": cards(run.judgement),
        "tables": page_tables(run_tables, source=results.datasets("source")[0]),
        "open_tables": 2 if len(results.variants) == 1 else 3,
        "figures": figures,
        "soups": [_soup(name, soup) for name, seeds in run.soups.items() for soup in seeds],
        "gallery": gallery(artifacts, params=params),
        "changed_by": changed_by(artifacts),
        "moved": moved_classes(artifacts, params=params),
        "facts": _facts(results),
        **_datasets(results, artifacts=artifacts),
        "mixed": mixed_versions(results),
        "timings": timings(timings_file),
        "costs": costs(timings_file),
        "params": Path(params_file).read_text(encoding="utf-8"),
        "bundle": vl_convert.javascript_bundle(),  # type: ignore[call-arg]  # its stub asks for what is optional
    }
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {"script_json": script_json, "side": _side}
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(context)
    store.write_bytes(path, page.encode())
    for figure in figures:
        # On white, and as wide as a README where a figure takes the page's width.
        width = {"width": 640} if figure["spec"].get("width") == "container" else {}
        svg = vl_convert.vegalite_to_svg({**figure["spec"], **width, "background": "white"})
        store.write_bytes(Path(path).parent / "figures" / f"{figure['name']}.svg", svg.encode())
    return Path(path)


def script_json(value: Any) -> str:
    """JSON for a script element: without ``<``, nothing in it can close the element."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True).replace("<", "\\u003c")


def _side(gain: float | None) -> str:
    """CSS class of a gain: ``gain`` or ``loss``; ``soft`` if it reads as 0.00 or is missing."""
    return "soft" if gain is None or abs(gain) < SHOWN else "gain" if gain > 0 else "loss"


def cards(judgement: Judgement) -> list[dict[str, str]]:
    """Accuracies of the run's soup and its rivals, and the soup's gain over the class name alone."""
    soup = f"{soup_title(judgement.soup)}, {judgement.mode.replace('_', ' ')} of all seeds"
    shown = []
    for main in judgement.main:
        place = main.datasets[0] if len(main.datasets) == 1 else f"{len(main.datasets)} other datasets"
        over = main.over[CLASS_NAME.name]
        gain = f"{over.mean:+.2f} points ({over.low:+.2f} to {over.high:+.2f})"
        shown += [_card(RIVALS[rival], place, accuracy) for rival, accuracy in main.rival_accuracy.items()]
        shown.append(_card(soup, place, main.accuracy, gain=gain))
    return shown


def _card(name: str, place: str, accuracy: float, *, gain: str = "") -> dict[str, str]:
    return {"name": name, "title": place, "value": f"{accuracy:.2f} %", "gain": gain}


def _figures(folder: Path) -> list[dict[str, Any]]:
    data = {name: store.read_json(store.require(folder / f"{name}.json", made_by="report")) for name in FIGURES}
    return [
        {"name": name, "caption": FIGURES[name], "spec": plots.figure(name, rows)}
        for name, rows in data.items()
        if rows
    ]


def _soup(name: str, soup: Soup) -> dict[str, Any]:
    """Its members, how each grew in the search, and how many images the finished ones get right."""
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
    return {
        "title": f"{soup_label(name)}, seed {soup.seed}",
        "members": members,
        "n_images": next((member.n_images for member in soup.members if member.n_images), None),
        "name_correct": soup.class_name_correct,
        "worse": soup.no_better,
        "together": soup.together,
    }


# ----------------------------------------------------------------------------------------------- about the run


def _facts(results: Results) -> list[tuple[str, str]]:
    """Names and values: encoder, seeds, methods, machine."""
    encoder = {key: value for key, value in results.encoder.items() if value is not None}
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return [
        ("encoder", yaml.safe_dump(encoder, sort_keys=True).strip()),
        ("seeds", ", ".join(map(str, results.seeds))),
        ("finetuned", ", ".join(v for v in results.variants if v != PRETRAINED) or "nothing"),
        ("machine", machine),
    ]


def _datasets(results: Results, *, artifacts: Artifacts) -> dict[str, Any]:
    """Rows of datasets with their sizes, split and a fingerprint of the manifest, and the columns that they need.

    What applies to every split is printed once, as ``datasets_note``.
    """
    rows = []
    for name, about in results.facts.items():
        manifest, comparable = artifacts.manifest(name), about.get("paper_comparable")
        split = "the paper's split" if comparable else about.get("reason", "another split")
        rows.append(
            {
                "name": name,
                "role": about.get("role", ""),
                "classes": about["n_classes"],
                "images": about["n_images"],
                "template": about.get("template", ""),
                "paper": "" if comparable is None else split,
                "fingerprint": store.sha256_file(manifest)[:16] if manifest.exists() else "",
            }
        )
    splits = {row["paper"] for row in rows}
    columns = ["dataset", "role", "classes", "test images", "template", *(["split"] * (len(splits) > 1)), "manifest"]
    return {"datasets": rows, "dataset_columns": columns, "datasets_note": splits.pop() if len(splits) == 1 else ""}


def mixed_versions(results: Results) -> list[str]:
    """A sentence for each dataset whose features were made by older packages than those of others."""
    older = differing({name: about.get("made_with", {}) for name, about in results.facts.items()})
    return [
        f"{name}: its features {sentence}; `wsoup check` says how to make them again"
        for name, sentence in older.items()
    ]
