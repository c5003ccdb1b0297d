"""``wsoup report``: one self-contained HTML page of a run. It needs no network: Vega and its data are inside.

The first screen has the answer, one figure and the worst errors; tables, other figures and pictures (of what the
run's soup gets wrong, and what it changed) are folded. The page carries the digest of the record that it shows: stage
`report` removes it where it writes other results.
"""

import base64
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import vl_convert
import yaml
from PIL import Image

from wsoup import __version__
from wsoup.base import remote
from wsoup.base.errors import DataError
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED, Artifacts
from wsoup.images.decode import load_rgb
from wsoup.report.plots import evenly
from wsoup.report.results import Results, RunParams
from wsoup.report.run import FILE, MARK, digest, load_record, load_run, tables
from wsoup.report.tables import HIDDEN, Table, cell, shown_columns, soup_title

TEMPLATE = Path(__file__).with_name("page.html")
FIGURE_TEMPLATES = Path(__file__).with_name("templates")
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""Of the library inside the page; the templates name the older one that ``dvc plots`` loads."""
TITLE = "Word soups and descriptor soups"
ROLES = {"source": "the source", "xd": "other classes, XD", "dg": "the source's classes, shifted, DG"}
FIGURES = {
    "gains": "Points gained over the class name only; bars are intervals over images and seeds, datasets held fixed.",
    "candidates": "Every candidate on the source's few-shot training images, first seed; the grey rule is the class "
    "name alone.",
    "transfer": "Each point is one descriptor that nobody selected.",
    "accuracy_by_m": "Means over datasets and seeds; bars are ± one standard deviation over seeds.",
    "parameters": "A soup stores one integer per token, a finetuned model its trained weights.",
    "members_kl": "How far a soup's members stay apart in training: KL divergence between their predictions, in nats.",
    "training": "The averaged weights on the same few test images of every dataset; bars are ± one standard deviation "
    "over seeds.",
}
"""Captions, the first screen's figure first."""
THUMBNAIL = 72
"""Maximum side of a gallery image, in pixels."""
ERRORS = 6
"""Errors that are listed."""


def write_page(path: str | Path, *, root: str | Path = ".", title: str = TITLE) -> Path:
    """Write the page of the run in folder `root` to `path`, from its artifacts and reports/.

    Raises:
        MissingError, MismatchError: a stage has not run, or one of its files is not as it was written.
    """
    artifacts = Artifacts(Path(root))
    known = load_record(artifacts.root)
    run = load_run(known.params, artifacts=artifacts, origin=str(FILE))
    shown = [table for table in tables(run) if table.name != HIDDEN]
    figures = [
        {"name": name, "caption": caption, "spec": figure(name, rows)}
        for name, caption in FIGURES.items()
        if (rows := store.read_json(store.require(artifacts.reports / "plots" / f"{name}.json", made_by="report")))
    ]
    context = {
        "mark": f'{MARK}{digest(artifacts.root)}">',
        "version": __version__,
        "title": title,
        "sentences": [
            (ROLES[role], len(datasets), answer.sentence)
            for role, answer in run.judgement.answers.items()
            for datasets in [run.results.datasets(role)]
        ],
        "figures": figures,
        "errors": worst_errors(artifacts, params=run.params),
        "tables": [*shown, datasets_table(run.results)],
        "changed_by": f"{soup_title(known.soup)} ({known.mode.replace('_', ' ')}, all seeds)",
        "gallery": gallery(artifacts, params=run.params),
        "encoder": yaml.safe_dump({key: value for key, value in run.results.encoder.items() if value is not None}),
        "params": yaml.safe_dump(known.params, sort_keys=False),
        "bundle": vl_convert.javascript_bundle(),  # type: ignore[call-arg]  # its stub asks for what is optional
    }
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {"script_json": script_json, "columns": shown_columns, "text": cell}
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(context)
    store.write_bytes(path, page.encode())
    return Path(path)


def figure(name: str, rows: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """A template with the data of one revision: a complete Vega-Lite specification."""
    template = (FIGURE_TEMPLATES / f"{name}.json").read_text(encoding="utf-8")
    specification: dict[str, Any] = json.loads(template, object_hook=_without_revisions)
    specification["$schema"] = SCHEMA
    # Labels that touch read as one number; symbols are black by default, which cannot be seen in dark mode.
    specification["config"] = {"axis": {"labelSeparation": 8}, "legend": {"symbolBaseFillColor": "#888"}}
    specification["data"] = {"values": list(rows)}
    return specification


def _without_revisions(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a specification without the channels that distinguish revisions."""
    return {key: value for key, value in part.items() if not (isinstance(value, dict) and value.get("field") == "rev")}


def script_json(value: object) -> str:
    """JSON for a script element: without ``<``, nothing in it can close the element."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True).replace("<", "\\u003c")


def datasets_table(results: Results) -> Table:
    """Datasets with their roles, sizes, templates and splits."""
    splits = {None: "", True: "the paper's"}
    rows = [
        {
            "dataset": name,
            "role": results.roles[name],
            "classes": about["n_classes"],
            "test images": about["n_images"],
            "template": about.get("template", ""),
            "split": splits.get(about.get("paper_comparable"), about.get("reason", "another")),
        }
        for name, about in results.facts.items()
    ]
    return Table("datasets", "Datasets", columns=[*rows[0]], rows=rows)


def worst_errors(artifacts: Artifacts, *, params: RunParams) -> Table:
    """Classes that the run's soup most often takes for another, over all datasets, by share of their images."""
    table = store.read_table(artifacts.results / PRETRAINED / "confusion.parquet").to_pylist()
    images, wrong, before = Counter[tuple[str, int]](), Counter[tuple[str, int, int]](), Counter[tuple[str, int, int]]()
    for line in table:
        name, label, n = line["dataset"], line["label"], line["n_images"]
        images[name, label] += n
        wrong[name, label, line["after"]] += n
        before[name, label, line["before"]] += n
    names = {name: class_names(artifacts, name) for name in params.datasets}
    errors = [(name, label, other) for name, label, other in wrong if label != other]
    errors.sort(key=lambda error: -wrong[error] / images[error[:2]])
    rows = [
        {
            "class": names[name][label],
            "taken for": names[name][other],
            "dataset": name,
            "with the soup": wrong[name, label, other],
            "class name only": before[name, label, other],
            "images": images[name, label],
        }
        for name, label, other in errors[:ERRORS]
        if names[name]
    ]
    columns = ["class", "taken for", "dataset", "with the soup", "class name only", "images"]
    return Table("errors", "The worst errors", columns, rows)


def class_names(artifacts: Artifacts, dataset: str) -> list[str]:
    """Class names of a dataset; none if its manifest is not there."""
    manifest = artifacts.manifest(dataset)
    return list(store.table_attributes(manifest)["class_names"]) if manifest.exists() else []


def gallery(artifacts: Artifacts, *, params: RunParams) -> dict[str, list[dict[str, object]]]:
    """For each dataset, images that the run's soup turned right and wrong: how many, and some of them as data URIs."""
    flips = store.read_table(artifacts.results / PRETRAINED / "flips.parquet").to_pylist()
    datasets: dict[str, list[dict[str, object]]] = {}
    for name, dataset in params.datasets.items():
        lines, names = [line for line in flips if line["dataset"] == name], class_names(artifacts, name)
        if not lines or not names:
            continue
        paths = store.read_table(artifacts.manifest(name), columns=["path"])["path"]
        root = dataset.root if remote.is_remote(dataset.root) else artifacts.root / dataset.root
        for title, prediction in (("now right", "after"), ("now wrong", "before")):
            flipped = [line for line in lines if line[prediction] == line["label"]]
            pictures = [
                {"image": image, **{answer: names[line[answer]] for answer in ("label", "before", "after")}}
                for line in (flipped[i] for i in evenly(len(flipped), at_most=params.report.gallery))
                if (image := _data_uri(remote.joined(root, paths[line["row"]].as_py())))
            ]
            group = {"title": title, "n_images": len(flipped), "pictures": pictures}
            datasets.setdefault(name, []).append(group)
    return datasets


def _data_uri(path: str) -> str | None:
    """A small PNG or JPEG of an image file; None if it can no longer be read."""
    try:
        image = load_rgb(path)
    except DataError:
        return None
    kind = "png" if max(image.size) <= THUMBNAIL else "jpeg"
    image.thumbnail((2 * THUMBNAIL, 2 * THUMBNAIL), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    image.save(data, format=kind, **({"quality": 80} if kind == "jpeg" else {}))
    return f"data:image/{kind};base64,{base64.b64encode(data.getvalue()).decode()}"
