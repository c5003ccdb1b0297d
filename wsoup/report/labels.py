"""Labels of rows: which rows tables may have, in which order, and what each is called there, in figures, on the page.

What is counted stands in `wsoup.evaluate.rows`, so that a change here runs stage `report` alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from wsoup.core.modes import Weighing
from wsoup.evaluate.rows import (
    CLASS_NAME,
    CUPL,
    CURVE,
    ENSEMBLE,
    GPT,
    OWN_TEMPLATES,
    RANDOM_CHAINS,
    RANDOM_DESCRIPTORS,
    TEMPLATES,
    UPPER_BOUND,
    WAFFLE,
    Method,
    in_order,
    soup_method,
    template_methods,
)
from wsoup.search.grow.all_kinds import SoupParams


@dataclass(frozen=True)
class TableRow:
    """One row of a table: one way to use a method's texts.

    Attributes:
        key: key in metrics.json.
        label: label in tables, as in zero_shot.csv if the paper has the row.
        method: where the texts come from.
        mode: centroid or score_mean, or the way in which texts are weighed.
        offsets: whether each member is repeated at other token offsets.
        curve: label in the figure over m; None if not drawn.
        alone: label of a single text of the method.
        plain: label for readers who do not know the paper's name.
        m: number of members, if not the size that tables show.
    """

    key: str
    label: str
    method: Method
    mode: str = "centroid"
    offsets: bool = False
    curve: str | None = None
    alone: str | None = None
    plain: str | None = None
    m: int | None = None


BEFORE_SOUPS = (
    TableRow(
        "class_name",
        "CLIP ZS",
        CLASS_NAME,
        plain="Class name only",
    ),
    TableRow("ensemble", "Ensemble", ENSEMBLE, plain="80 prompt templates"),
    TableRow("gpt_centroids", "GPT centroids", GPT, curve="GPT centroids"),
    TableRow("gpt_score_mean", "GPT score mean", GPT, "score_mean"),
    TableRow("cupl", "CuPL", CUPL, plain="Sentences of each class (CuPL)"),
    TableRow(
        "random_descriptors",
        "Random descriptors",
        RANDOM_DESCRIPTORS,
        curve="random descriptors",
        alone="random descriptor",
    ),
    TableRow(
        "random_descriptors_offsets",
        "Random descriptors + offset trick",
        RANDOM_DESCRIPTORS,
        offsets=True,
    ),
    TableRow("waffle", "Waffle CLIP", WAFFLE, curve="Waffle"),
    TableRow("waffle_offsets", "Waffle CLIP + offset trick", WAFFLE, offsets=True),
    TableRow("random_chains", "Random word chains", RANDOM_CHAINS, alone="random chain"),
)
AFTER_SOUPS = (TableRow("upper_bound", "Descriptor soup upper bound", UPPER_BOUND),)
WEIGHED_LABELS: dict[Weighing, str] = {"autoclip": "AutoCLIP", "zpe": "ZPE", "zpe_selection": "ZPE selection"}
TEMPLATE_LABELS = {
    "openai7": "OpenAI's 7 templates",
    "simple": "Template of the dataset",
    OWN_TEMPLATES: "Templates of each dataset",
}
SOUP_LABELS = {"descriptor": "Descriptor soup", "word": "Word soup"}


def template_rows(lists: Iterable[str], *, own: bool) -> list[TableRow]:
    """The rows of ``evaluate.templates``, and if there are any of each dataset's own templates."""
    rows = []
    for method in template_methods(lists, own=own):
        name = method.name.removesuffix(TEMPLATES)
        rows.append(TableRow(method.name, TEMPLATE_LABELS.get(name, f"Templates {name}"), method))
    return rows


def table(soups: Sequence[str], *, templates: Sequence[TableRow] = ()) -> tuple[TableRow, ...]:
    """All rows in the order of the paper (zero_shot.csv), including `template_rows` and those of params.yaml's soups.

    >>> [row.key for row in table(["word_k50"])][10:14]
    ['word_k50_soup', 'word_k50_soup_score_mean', 'word_k50_soup_offsets', 'upper_bound']
    """
    rows: list[TableRow] = []
    # The paper's soups come first whatever params.yaml's order, so that its tables read as printed.
    for name in in_order(soups):
        for row in soup_rows(name):
            # The soup of the curve extends the word soup's line in the figure, so that one is not drawn twice.
            drawn_longer = row.method.soup == "word" and CURVE in soups
            rows.append(replace(row, curve=None) if drawn_longer else row)
    return (*BEFORE_SOUPS, *templates, *rows, *AFTER_SOUPS, *_weighed_rows([*BEFORE_SOUPS, *rows]))


def baseline_rows() -> list[TableRow]:
    """One row for each source of texts that nobody searched, in the order of tables: as a centroid, without offsets."""
    return [row for row in BEFORE_SOUPS if row.mode == "centroid" and not row.offsets]


def _weighed_rows(rows: Sequence[TableRow]) -> Iterator[TableRow]:
    """A block of its own: the rows whose texts are weighed, by each way (`wsoup.evaluate.weighed`)."""
    for way, title in WEIGHED_LABELS.items():
        for row in rows:
            if row.method.weighed and row.key == row.method.name:
                plain = row.plain and f"{row.plain}, {title}"
                yield TableRow(f"{row.key}_{way}", f"{row.label}, {title}", row.method, way, plain=plain)


def soup_rows(name: str) -> tuple[TableRow, ...]:
    """Rows of one soup: centroid, score mean and offset trick.

    Soups that are not the paper's are shown wherever the word soup is, and `CURVE` only in the curve.
    """
    if name == CURVE:
        return _curve_rows()
    method = soup_method(name)
    label = soup_label(name)
    title = soup_title(name)
    return (
        TableRow(method.name, label, method, curve=title, alone=title),
        TableRow(
            f"{method.name}_score_mean",
            f"{label} score mean",
            method,
            "score_mean",
            curve=f"{title}, score mean",
        ),
        TableRow(f"{method.name}_offsets", f"{label} + offset trick", method, offsets=True),
    )


def _curve_rows() -> tuple[TableRow, ...]:
    """Rows of the word soup with more members, which takes over the word soup's line in the figure."""
    method = soup_method(CURVE)
    label = soup_label("word")
    title = soup_title("word")
    return (
        TableRow(method.name, f"{label}, all of the curve", method, curve=title),
        TableRow(
            f"{method.name}_score_mean",
            f"{label} score mean, all of the curve",
            method,
            "score_mean",
            curve=f"{title}, score mean",
        ),
    )


def soup_label(name: str) -> str:
    """Label of a soup at the start of a line: ``Word soup``, ``Soup word_k50``."""
    return SOUP_LABELS.get(name, f"Soup {name}")


def soup_title(name: str) -> str:
    """Label of a soup within a line: ``word soup``, ``soup word_k50``."""
    label = soup_label(name)
    return label[0].lower() + label[1:]


def random_soup(m: int, *, pool: str) -> str:
    """Name of a soup of random texts in the answer of a run and of `wsoup try`: ``soup of 64 random words``."""
    return f"soup of {m} random {pool}"


def title_in_answer(name: str, *, soup: SoupParams) -> str:
    """Name of the run's soup in its answer: `random_soup` for a sample of its whole pool, else `soup_title`."""
    if soup.kind == "sample" and soup.limit is None:
        return random_soup(soup.m, pool=soup.pool)
    return soup_title(name)
