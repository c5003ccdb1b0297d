"""``wsoup report``: one self-contained HTML page of a run. It needs no network: Vega and its data are inside.

The first screen is the paper's: what was run, one table (source, XD, DG) and one figure. The answer in sentences, the
worst errors, the soup's texts and pictures of what it changed follow; every dataset, comparisons, other figures and
params are folded. The page carries the digest of the record that it shows: stage `report` removes it where it writes
other results.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import yaml

from wsoup import __version__
from wsoup.base.number_of import number_of
from wsoup.disk import store
from wsoup.disk.files import Artifacts, tamed
from wsoup.report.answer import RunAnswer
from wsoup.report.figures import figures
from wsoup.report.labels import soup_title
from wsoup.report.main_table import main_table, shown_roles, weighed_rows
from wsoup.report.on_page import on_page
from wsoup.report.pictures import gallery, worst_errors
from wsoup.report.ran import NOT_EVIDENCE, datasets_by_role, encoder, is_drawn, test_images
from wsoup.report.record import FILE, PAGE_MARK, SEAL, Record, digest, load_record, sealed
from wsoup.report.results import Results
from wsoup.report.run import FinishedRun, load_run, tables
from wsoup.report.sentences import ON, answer
from wsoup.report.tables import HIDDEN, Table, cell, shown_columns
from wsoup.report.vega import vega_script
from wsoup.report.verdict_table import by_question
from wsoup.runtime.git import git

TEMPLATE = Path(__file__).with_name("page.html")
TITLE = "Word soups and descriptor soups"
MEMBERS_SHOWN = 24
SHOWN_AT_ONCE = 2
"""Datasets whose changed pictures are not folded."""
BY_DATASET = ("zero_shot", "finetuned")
"""Tables that unfold the first one."""
ABOUT = {
    "source": ("Source", "test images"),
    "xd": ("XD", "other classes"),
    "dg": ("DG", "the source's classes in other styles"),
    "finetuned": ("Finetuning", ""),
    "head": ("Head", ""),
}
"""Parts of the answer: a name, and what it means."""


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
    shown = [on_page(table) for table in tables(run) if table.name not in (HIDDEN, "verdict")]
    by_dataset = [table for table in shown if table.name in BY_DATASET]
    others = [table for table in shown if table.name not in BY_DATASET]
    others.append(datasets_table(run.results))
    encoder_id = {key: value for key, value in run.results.encoder.items() if value is not None}
    context = {
        "mark": f'{PAGE_MARK}{digest(artifacts.root)}">{SEAL}">',
        "version": __version__,
        "title": title,
        "facts": _facts(record, root=artifacts.root),
        "places": shown_roles(run),
        "main_table": main_table(run),
        "weighed_rows": weighed_rows(run),
        "soup": _soup(record),
        "members": [member or "(class name alone)" for member in record.members[:MEMBERS_SHOWN]],
        "sentences": _sentences(run),
        "figures": figures(artifacts, judged=run.judged),
        "errors_first": _is_about_soup(run.judged),
        "errors": worst_errors(artifacts, params=run.params),
        "by_dataset": by_dataset,
        "questions": by_question(run.judged),
        "tables": others,
        "changed_by": f"{soup} ({mode}, all seeds)",
        "shown_at_once": SHOWN_AT_ONCE,
        "gallery": gallery(artifacts, params=run.params),
        "encoder": yaml.safe_dump(encoder_id),
        "params": yaml.safe_dump(record.params, sort_keys=False),
        "bundle": vega_script(),
    }
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=_tamed_text
    )
    environment.filters |= {"script_json": script_json, "columns": shown_columns, "text": cell}
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(context)
    store.write_bytes(path, sealed(page).encode())
    return Path(path)


def _is_about_soup(judged: RunAnswer) -> bool:
    """Whether the answer on the source is about the soup: errors of a row that it advises against come later."""
    place = judged.answers["source"]
    return place.use in (None, "soup")


def _facts(record: Record, *, root: Path) -> dict[str, str]:
    """What was run: data, encoder, labelled images, and which run it is."""
    images = test_images(record.images)
    if is_drawn(record):
        images = f"{images}, {NOT_EVIDENCE}"
    by_role = datasets_by_role(record)
    parts = [f"{ON[role]}: {', '.join(names)}" for role, names in by_role.items()]
    seeds = record.params["seeds"]
    seeds_or_seed = "seed" if len(seeds) == 1 else "seeds"
    shots = number_of(record.params["fewshot"]["shots"], "labelled image")
    return {
        "Images": images,
        "Datasets": "; ".join(parts),
        "Encoder": encoder(record),
        "Selected on": f"at most {shots} of each class, {seeds_or_seed} {', '.join(map(str, seeds))}",
        "Run": _which(root),
    }


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
    """What the list of the soup's texts is."""
    n_texts = len(record.members)
    first = f" (the first {MEMBERS_SHOWN})" if n_texts > MEMBERS_SHOWN else ""
    return f"The {soup_title(record.soup)} has {number_of(n_texts, 'text')} with the members of all seeds{first}:"


def _sentences(run: FinishedRun) -> list[tuple[str, str, str]]:
    """The answer: what each part is about, what that means, and what the part says."""
    sentences = []
    for about, text in answer(run.judged):
        where, what = ABOUT[about]
        n_datasets = len(run.results.datasets(about))
        if n_datasets > 1:
            what = f"{what}; {n_datasets} datasets"
        sentences.append((where, what, text))
    return sentences


def _tamed_text(value: object) -> object:
    """A text of the page without what would turn round the text beside it; what is marked as safe stays as it is."""
    return tamed(value) if type(value) is str else value


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
