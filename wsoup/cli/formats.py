"""A soup as a table for a terminal or a notebook, and as templates for other software."""

import json
from collections import Counter
from collections.abc import Sequence

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from wsoup.base.errors import ParamsError
from wsoup.base.number_of import number_of
from wsoup.core.member import Member
from wsoup.core.soup import Soup, named
from wsoup.disk.files import shown
from wsoup.paper.soups import Counted, means

FORMATS = ("open_clip", "clip_benchmark", "text")
ANY_DATASET = "imagenet1k"
"""The key that CLIP_benchmark falls back to for datasets without their own."""
CLASS_NAME_ONLY = "(class name only)"


def show(soup: Soup) -> Group:
    """A table of the members with their accuracy on the source, and how they grew if known; for `rich.print`."""
    counted = any(member.n_correct is not None and member.n_images for member in soup.members)
    grew = _grew_as_counted(soup.members)
    table = Table(box=None, pad_edge=False)
    table.add_column("#", justify="right")
    table.add_column("member", overflow="fold")
    if counted:
        table.add_column("correct", justify="right")
        table.add_column("source accuracy", justify="right")
    if grew:
        table.add_column("correct after each added word", overflow="fold")
    for number, member in enumerate(soup.members, start=1):
        # Markup of rich is escaped after control characters, whose escapes it would read.
        cells = [str(number), escape(shown(member.text)) or CLASS_NAME_ONLY]
        if counted:
            cells += _counts(member)
        if grew:
            steps = [f"{step.added} {step.n_correct}" for step in member.trace]
            growth = shown(" → ".join(steps))
            cells.append(escape(growth))
        table.add_row(*cells)
    lines = [Text(summary(soup))]
    settings = [f"{key} {value}" for key, value in soup.definition.items() if key != "kind"]
    if settings:
        lines.append(Text(shown(f"searched with {', '.join(settings)}")))
    lines += [Text(shown(f"{what}: {fact}")) for what, fact in soup.about.items()]
    if soup.class_name_correct is not None:
        n_images = next((member.n_images for member in soup.members if member.n_images), 0)
        lines.append(Text(f"class name alone: {soup.class_name_correct} of {n_images} correct"))
    return Group(*lines, table)


def show_counts(rows: Sequence[Counted]) -> Table:
    """A table of what the paper's authors counted: correct images by dataset, and means; empty for no rows."""
    table = Table(box=None, pad_edge=False)
    if not rows:
        return table
    table.add_column("correct, by the authors")
    for column in ("images", "class name", "", "80 templates", "", "this soup", ""):
        table.add_column(column, justify="right")
    for row in rows:
        cells = [row.title, str(row.n_images)]
        for n_correct in (row.class_name, row.templates, row.soup):
            cells += _share(n_correct, n_images=row.n_images)
        table.add_row(*cells)
    for place, shares in means(rows).items():
        cells = [f"{place}, mean", ""]
        for share in shares:
            cells += ["", f"{share:.2f} %"]
        table.add_row(*cells)
    return table


def _grew_as_counted(members: Sequence[Member]) -> bool:
    """Whether members grew in steps whose last count is the member's own.

    A search without the final period counts otherwise than the finished member: beside its count that reads as a bug.
    """
    in_steps = False
    for member in members:
        if member.trace and member.n_correct not in (None, member.trace[-1].n_correct):
            return False
        in_steps = in_steps or len(member.trace) > 1
    return in_steps


def summary(soup: Soup) -> str:
    """One line about a soup."""
    about = [f"{soup.kind} soup", soup.drawn_by, number_of(len(soup.members), "member")]
    encoder = named(soup.encoder)
    if encoder:
        about.append(f"encoder {encoder}")
    about.append("whole templates" if soup.of_templates else f"template {soup.template!r}")
    return shown(", ".join(about))


def export(soup: Soup, *, form: str, template: str | None = None) -> str:
    """A soup as the content of a file, with template, comma and final period: exactly the texts that were measured.

    Args:
        soup: the soup.
        form: of `FORMATS`. ``open_clip``: Python source with a list `templates`, for its `build_zero_shot_classifier`;
            ``clip_benchmark``: JSON for its ``--custom_template_file``; ``text``: one template per line.
        template: of another dataset (default: the soup's).

    Raises:
        ParamsError: a text with a line break as ``text``.
    """
    templates = soup.templates(template)
    if form == "open_clip":
        return _python(soup, templates)
    if form == "clip_benchmark":
        # Its classifier fills `{c}` by name.
        by_name = soup.templates(template, place="{c}")
        return json.dumps({ANY_DATASET: by_name}, indent=2, ensure_ascii=False) + "\n"
    broken = next((text for text in templates if len(text.splitlines()) > 1), None)
    if broken is not None:
        raise ParamsError(f"{broken[:80]!r} holds a line break: text has one line per text; use another --format")
    return "".join(f"{text}\n" for text in templates)


def _counts(member: Member) -> tuple[str, str]:
    """Correct images and their percentage; empty if nothing was counted."""
    if member.n_correct is None or not member.n_images:
        return "", ""
    return _share(member.n_correct, n_images=member.n_images)


def _share(n_correct: int, *, n_images: int) -> tuple[str, str]:
    """A count and its percentage."""
    return str(n_correct), f"{100 * n_correct / n_images:.2f} %"


def _python(soup: Soup, templates: Sequence[str]) -> str:
    lines = ""
    # Seeds may share members, which then count as often in the mean.
    for text, n in Counter(templates).items():
        item = repr(text) if n == 1 else f"*{n} * [{text!r}]"
        lines += f"    {item},\n"
    encoder = named(soup.encoder)
    found_with = f", found with {encoder}" if encoder else ""
    # Always one line: a second one would be executed.
    about = shown(f"{number_of(len(templates), 'member')}, kind {soup.kind}, {soup.drawn_by}{found_with}.")
    return (
        f"# A soup of wsoup: {about}\n"
        "# open_clip.build_zero_shot_classifier(model, tokenizer, classnames, templates)\n"
        f"templates = [\n{lines}]\n"
    )
