"""The page's first table, as the paper prints it: texts, soups and what was trained, on the source, XD and DG.

Rows of the answer have the figures of the answer (the run's soup with the members of all seeds); all others are means
over seeds. A gain over the class name alone, and its verdict, stand beside an accuracy where the run has judged them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from wsoup.core.modes import WEIGHINGS
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.row_key import judged_row
from wsoup.evaluate.rows import CLASS_NAME, ENSEMBLE, RANDOM_DESCRIPTORS, in_order, judged_soups, row_name
from wsoup.report.answer import HEADS
from wsoup.report.labels import baseline_rows, soup_title
from wsoup.report.published_beside import figures, in_words
from wsoup.report.results import PLACES, Cells, Results
from wsoup.report.run import FinishedRun
from wsoup.report.tables import is_number, mean_and_std
from wsoup.report.what_rows_are import (
    about_head,
    about_method,
    about_soup,
    about_templates,
    about_texts,
    about_weights,
)
from wsoup.statistics.noise import Verdict
from wsoup.statistics.words import signed, worded

WEIGHED = (ENSEMBLE.name, RANDOM_DESCRIPTORS.name)
"""Which baselines are also shown with weighed texts, beside the run's soup; all others are in zero_shot.md."""
OF_ANSWER = {"class_name": "class_name", "ensemble": "templates"}
"""Which baselines are rows of the answer."""


@dataclass(frozen=True)
class Place:
    """A cell: what a row gets on one place.

    Attributes:
        accuracy: per cent.
        gain: over the class name alone, with its sign; "" where the run has not judged it.
        verdict: better, worse, noise or equal, or "".
    """

    accuracy: float
    gain: str = ""
    verdict: str = ""


@dataclass(frozen=True)
class MainRow:
    """A line of the table.

    Attributes:
        name: of the row, as in the figure of gains.
        about: what it is, in a few words.
        texts: mean number of texts of a class; None where they are not counted.
        places: by role; without those that the row does not have.
        is_runs: whether the run is about it.
    """

    name: str
    about: str
    texts: float | None
    places: Mapping[str, Place]
    is_runs: bool = False


def main_table(run: FinishedRun) -> list[list[MainRow]]:
    """The table in groups: texts without a search, soups, and what was trained on the source's images."""
    groups = [_baselines(run), _soups(run), _trained(run)]
    return [group for group in groups if group]


def shown_roles(run: FinishedRun) -> dict[str, str]:
    """Role -> head of its column."""
    heads = {}
    for role, place in PLACES.items():
        n_datasets = len(run.results.datasets(role))
        if n_datasets:
            heads[role] = place if n_datasets > 1 else place.removesuffix(" mean")
    return heads


def _baselines(run: FinishedRun) -> list[MainRow]:
    rows = []
    for row in [*baseline_rows(), *run.params.template_rows]:
        name = row.key
        cells = run.results.cells(PRETRAINED, row)
        if cells is None:
            continue
        title = row.label.replace("Random", "random", 1)
        places = _means(run.results, cells)
        if name in OF_ANSWER:
            title = run.judged.title(OF_ANSWER[name])
            places |= _of_answer(run, OF_ANSWER[name])
        about = about_texts(name, template=run.params.datasets[run.params.source].template)
        if row in run.params.template_rows:
            about = about_templates(name, params=run.params)
        if name == ENSEMBLE.name:
            about = "; ".join(filter(None, [about, _published(run)]))
        rows.append(MainRow(title, about, cells.texts, places))
    return rows


def _published(run: FinishedRun) -> str:
    """What open_clip publishes of the templates on these test images; "" if nothing."""
    sections = {name: {"layout": section.layout} for name, section in run.params.datasets.items()}
    images = {name: int(facts["n_images"]) for name, facts in run.results.facts.items()}
    return in_words(figures(run.results.encoder, datasets=sections, images=images))


def _soups(run: FinishedRun) -> list[MainRow]:
    rows = []
    for name in judged_soups(in_order(list(run.params.soups))):
        about = about_soup(run.params.soups[name])
        if name == run.judged.soup:
            n_texts = float(len(run.record().members))
            rows.append(MainRow(run.judged.title("soup"), about, n_texts, _of_answer(run, "soup"), is_runs=True))
            continue
        cells = _judged_cells(run, name, variant=PRETRAINED)
        if cells is not None:
            rows.append(MainRow(soup_title(name), about, cells.texts, _of_soup(run, name, cells=cells)))
    return rows


def _of_soup(run: FinishedRun, name: str, *, cells: Cells) -> dict[str, Place]:
    """A soup as a mean over seeds, with its gains over the class name."""
    places = _means(run.results, cells)
    for comparison in run.judged.comparisons:
        if (comparison.soup, comparison.rival) == (name, CLASS_NAME.name) and comparison.role in places:
            places[comparison.role] = _judged(places[comparison.role].accuracy, comparison.fixed)
    return places


def _trained(run: FinishedRun) -> list[MainRow]:
    """The run's finetuned method, those on the class name alone, and the first head."""
    rows = []
    for name, method in run.params.finetune.methods.items():
        cells = _judged_cells(run, method.soup, variant=name)
        if cells is None:
            continue
        about = about_method(method)
        if name == run.judged.method:
            title = run.judged.title("finetuned")
            rows.append(MainRow(title, about, cells.texts, _of_answer(run, "finetuned"), is_runs=True))
        elif method.soup == CLASS_NAME.name:
            rows.append(MainRow(f"{name}, finetuned", about, cells.texts, _means(run.results, cells)))
    for key in HEADS:
        if key in run.judged.names:
            about = about_head(shots=run.params.fewshot.shots)
            rows.append(MainRow(run.judged.title(key), about, None, _of_answer(run, key)))
    return rows


def weighed_rows(run: FinishedRun) -> list[MainRow]:
    """A table of its own: templates, random texts and the run's soup, with weights from the test images."""
    shown = (*WEIGHED, row_name(run.judged.soup))
    rows = []
    for row in run.results.table:
        if row.mode not in WEIGHINGS or row.method.name not in shown:
            continue
        cells = run.results.cells(PRETRAINED, row)
        if cells is not None:
            label = row.plain or row.label
            title = f"{label[0].lower()}{label[1:]}"
            rows.append(MainRow(title, about_weights(row.mode), cells.texts, _means(run.results, cells)))
    return rows


def _judged_cells(run: FinishedRun, soup: str, *, variant: str) -> Cells | None:
    """A soup's results, or those of a method trained on it, in the mode in which the soup is judged."""
    row = run.results.row(judged_row(soup, mode=run.params.report.mode))
    return None if row is None else run.results.cells(variant, row)


def _means(results: Results, cells: Cells) -> dict[str, Place]:
    """Means over datasets and seeds, by role, of places whose every result is there."""
    places = {}
    for role in PLACES:
        mean, _ = mean_and_std(cells.of(results.datasets(role)))
        if is_number(mean):
            places[role] = Place(mean)
    return places


def _of_answer(run: FinishedRun, key: str) -> dict[str, Place]:
    """A row of the answer."""
    places = {}
    for role, answer in run.judged.answers.items():
        if key in answer.accuracy:
            places[role] = _judged(answer.accuracy[key], answer.gains.get((key, CLASS_NAME.name)))
    return places


def _judged(accuracy: float, gain: Verdict | None) -> Place:
    if gain is None:
        return Place(accuracy)
    return Place(accuracy, signed(gain.mean), worded(gain))
