"""``wsoup report``: one self-contained HTML page of a run. It needs no network: Vega and its data are inside.

The first screen says which run it is and has the answer, one figure and the worst errors. The soup's texts and pictures
of what it changed follow; tables, other figures and params are folded. The page carries the digest of the record that
it shows: stage `report` removes it where it writes other results.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import yaml

from wsoup import __version__
from wsoup.base import project
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.report.answer import JudgedRun
from wsoup.report.labels import soup_title
from wsoup.report.pictures import gallery, worst_errors
from wsoup.report.plots_landscape import interpolated
from wsoup.report.record import FILE, PAGE_MARK, SEAL, Record, digest, load_record, sealed
from wsoup.report.results import Results
from wsoup.report.run import FinishedRun, load_run, tables
from wsoup.report.sentences import answer
from wsoup.report.tables import HIDDEN, Table, cell, shown_columns
from wsoup.report.vega import vega_script
from wsoup.runtime.git import git

TEMPLATE = Path(__file__).with_name("page.html")
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""The version of the library inside the page; the templates name the older one that ``dvc plots`` loads."""
TITLE = "Word soups and descriptor soups"
MEMBERS_SHOWN = 24
SHOWN_AT_ONCE = 2
"""Datasets whose changed pictures are not folded."""
ROLES = {
    "source": "Test images of the source",
    "xd": "Other classes (XD)",
    "dg": "The source's classes in another style (DG)",
}
FIGURES = {
    "gains": "Points gained over the class name only; bars are {confidence:.0%} intervals over images and seeds, "
    "datasets held fixed, corrected (Holm) on each place: {corrected}; another soup for its rivals.",
    "candidates": "Every candidate on the source's few-shot training images, first seed; the grey rule is the class "
    "name alone.",
    "transfer": "Each point is one descriptor that nobody selected.",
    "accuracy_by_m": "Means over datasets and seeds; bars are ± one standard deviation over seeds.",
    "parameters": "A soup stores one integer per token, a finetuned model its trained weights.",
    "members_kl": "How far a soup's members stay apart in training: KL divergence between their predictions, in nats.",
    "training": "The averaged weights on the same few test images of every dataset; bars are ± one standard deviation "
    "over seeds.",
    "landscape": "0-1 loss, first seed. Tuned tokens change to the right to the words of the soup's first member (B), "
    "upwards to random words (A). Values between the measured points are interpolated linearly.",
    "landscape_lines": "0-1 loss along the lines from the tuned tokens (0) to either initialisation (1), and beyond.",
}
"""Captions, the first screen's figure first."""


def write_page(path: str | Path, *, root: str | Path = ".", title: str = TITLE) -> Path:
    """Write the page of the run in folder `root` to `path`, from its artifacts and reports/.

    Raises:
        MissingError, MismatchError: a stage has not run, or one of its files is not as it was written.
    """
    artifacts = Artifacts(Path(root))
    record = load_record(artifacts.root)
    run = load_run(record.params, artifacts=artifacts, origin=str(FILE))
    soup = soup_title(record.soup)
    mode = record.mode.replace("_", " ")
    encoder = {key: value for key, value in run.results.encoder.items() if value is not None}
    context = {
        "mark": f'{PAGE_MARK}{digest(artifacts.root)}">{SEAL}">',
        "version": __version__,
        "title": title,
        "which": _which(artifacts.root),
        "soup": _soup(record),
        "sentences": _sentences(run),
        "figures": _figures(artifacts, judged=run.judged),
        "errors_first": _is_about_soup(run.judged),
        "errors": worst_errors(artifacts, params=run.params),
        "tables": _shown_tables(run),
        "changed_by": f"{soup} ({mode}, all seeds)",
        "shown_at_once": SHOWN_AT_ONCE,
        "gallery": gallery(artifacts, params=run.params),
        "encoder": yaml.safe_dump(encoder),
        "params": yaml.safe_dump(record.params, sort_keys=False),
        "bundle": vega_script(),
    }
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {"script_json": script_json, "columns": shown_columns, "text": cell}
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(context)
    store.write_bytes(path, sealed(page).encode())
    return Path(path)


def _is_about_soup(judged: JudgedRun) -> bool:
    """Whether the answer on the source is about the soup: errors of a row that it advises against come later."""
    place = judged.answers["source"]
    return place.use in (None, "soup")


def _which(root: Path) -> str:
    """Which run it is: its folder, when stage `report` wrote it, and its git revision if there is one."""
    written = datetime.fromtimestamp((root / FILE).stat().st_mtime, tz=UTC)
    which = f"{root.resolve().name}, {written:%Y-%m-%d %H:%M} UTC"
    commit = git("rev-parse", "--short", "HEAD", folder=root)
    if commit is None:
        return which
    which = f"{which}, git revision {commit.strip()}"
    # Results that were never committed are of no revision; edited params alone do not make them others.
    status = git("status", "--porcelain", "--", str(FILE), folder=root) or ""
    if not status.strip():
        return which
    return f"{which}; these results are not committed"


def _soup(record: Record) -> str:
    """The texts of the run's soup, in a sentence."""
    members = [member or "(class name alone)" for member in record.members]
    rest = len(members) - MEMBERS_SHOWN
    texts = "; ".join(members[:MEMBERS_SHOWN])
    more = f"; and {rest} more" if rest > 0 else ""
    return f"The {soup_title(record.soup)} has {len(members)} texts with the members of all seeds: {texts}{more}."


def _sentences(run: FinishedRun) -> list[tuple[str, str]]:
    """The answer: where, if a part is about one place, and what it says."""
    sentences = []
    for about, text in answer(run.judged):
        where = ""
        if about in ROLES:
            n_datasets = len(run.results.datasets(about))
            where = ROLES[about] if n_datasets == 1 else f"{ROLES[about]} ({n_datasets} datasets)"
        sentences.append((where, text))
    return sentences


def _figures(artifacts: Artifacts, *, judged: JudgedRun) -> list[dict[str, object]]:
    """Every figure that has data, as stage `report` wrote it."""
    figures: list[dict[str, object]] = []
    for name, caption in FIGURES.items():
        path = store.require(artifacts.reports / "plots" / f"{name}.json", made_by="report")
        points = store.read_json(path)
        if points:
            if name == "gains":
                caption = caption.format(confidence=judged.confidence, corrected=_corrected(judged))
            figures.append({"name": name, "caption": caption, "spec": figure(name, points)})
    return figures


def _corrected(judged: JudgedRun) -> str:
    """What the intervals of the answer's rows are corrected for."""
    if any(place.advice for place in judged.answers.values()):
        return "the rows of the answer for their number"
    return "the run's soup for its comparisons with class name and templates; what stands beside it for its own"


def _shown_tables(run: FinishedRun) -> list[Table]:
    shown = [table for table in tables(run) if table.name != HIDDEN]
    return [*shown, datasets_table(run.results)]


def figure(name: str, rows: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """A template with the data of one revision: a complete Vega-Lite specification."""
    template = project.file(f"data/plots/{name}.json").read_text(encoding="utf-8")
    specification: dict[str, Any] = json.loads(template, object_hook=_without_revisions)
    specification["$schema"] = SCHEMA
    # Labels that touch read as one number; symbols are black by default, which cannot be seen in dark mode.
    specification["config"] = {"axis": {"labelSeparation": 8}, "legend": {"symbolBaseFillColor": "#888"}}
    specification["data"] = {"values": list(rows)}
    if name == "landscape":
        # A run without targets has only the panels of the training images.
        means = {row["mean"] for row in rows}
        panels = specification["vconcat"]
        specification["vconcat"] = [panel for panel in panels if panel["title"]["text"] in means]
        specification["data"] = {"values": interpolated(rows)}
    return specification


def _without_revisions(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a specification without the channels that distinguish revisions."""
    kept = {}
    for key, value in part.items():
        is_revision = isinstance(value, dict) and value.get("field") == "rev"
        if not is_revision:
            kept[key] = value
    return kept


def script_json(value: object) -> str:
    """JSON for a script element: without ``<``, nothing in it can close the element."""
    text = json.dumps(value, ensure_ascii=True, sort_keys=True)
    return text.replace("<", "\\u003c")


def datasets_table(results: Results) -> Table:
    """Datasets with their roles, sizes, templates and splits."""
    rows = []
    for name, about in results.facts.items():
        rows.append(
            {
                "dataset": name,
                "role": results.roles[name],
                "classes": about["n_classes"],
                "test images": about["n_images"],
                "template": about.get("template", ""),
                "split": _split(about),
            }
        )
        if about.get("copies_left_out"):
            rows[-1]["copies left out"] = about["copies_left_out"]
    columns: dict[str, None] = {}
    for row in rows:
        columns |= dict.fromkeys(row)
    return Table("datasets", "Datasets", columns=list(columns), rows=rows)


def _split(about: Mapping[str, Any]) -> str:
    """Whether a dataset's split is the paper's; "" for a dataset that the paper does not have."""
    comparable = about.get("paper_comparable")
    if comparable is None:
        return ""
    return "the paper's" if comparable else about.get("reason", "another")
