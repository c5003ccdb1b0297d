"""A soup, and what differs between two, drawn for a terminal or a notebook: `rich.print(show(soup))`."""

from __future__ import annotations

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from wsoup.core.disk.files import shown
from wsoup.soup.member import Member
from wsoup.soup.soup import Soup

CLASS_NAME_ONLY = "(class name only)"


def show(soup: Soup) -> Group:
    """A soup's members, their accuracies on the source, and how each grew."""
    table = Table(box=None, pad_edge=False)
    table.add_column("#", justify="right")
    table.add_column("member", overflow="fold")
    table.add_column("right", justify="right")
    table.add_column("source accuracy", justify="right")
    table.add_column("grew: right in the search after each word or descriptor", overflow="fold")
    for number, member in enumerate(soup.members, start=1):
        grew = shown(" → ".join(f"{step.added} {step.n_correct}" for step in member.trace))
        right, accuracy = _counts(member)
        table.add_row(str(number), _shown(member), right, accuracy, escape(grew))
    beside = [] if soup.class_name_correct is None else [Text(_beside_class_name(soup))]
    return Group(Text(summary(soup)), *beside, table)


def _beside_class_name(soup: Soup) -> str:
    """What the class name alone gets right of the same images, and how many members are no better."""
    n_images = next((member.n_images for member in soup.members if member.n_images), None) or 0
    said = f"class name only: {soup.class_name_correct} of {n_images} right (`right`: finished, with a final period)"
    return said + (f"; {soup.no_better} of {len(soup.members)} members are no better" if soup.no_better else "")


def summary(soup: Soup) -> str:
    """A soup in one line."""
    encoder = soup.encoder
    return shown(
        f"{soup.kind} soup, {soup.drawn_by}, {len(soup.members)} members, "
        f"encoder {encoder.get('model')}/{encoder.get('pretrained')}, template {soup.template!r}"
    )


def differences(first: Soup, second: Soup) -> Group:
    """What differs between two soups: of what they are, then every member that is in one or both."""
    lines = [f"1: {summary(first)}", f"2: {summary(second)}"]
    keys = sorted({*first.encoder, *second.encoder})
    other = [key for key in keys if first.encoder.get(key) != second.encoder.get(key)]
    if other:
        lines.append(f"encoders differ in {', '.join(other)}: counts are not to be compared")
    texts = list(dict.fromkeys([*first.texts, *second.texts]))
    shared = [text for text in texts if text in first.texts and text in second.texts]
    lines.append(f"{len(shared)} of {len(texts)} members are in both")
    table = Table("in", box=None, pad_edge=False)
    table.add_column("member", overflow="fold")
    for number in (1, 2):
        table.add_column(f"right in {number}", justify="right")
    for text in sorted(texts, key=lambda text: text not in shared):  # those in both first, else in their order
        members = [next((m for m in soup.members if m.text == text), None) for soup in (first, second)]
        where = "both" if all(members) else "1" if members[0] else "2"
        member = members[0] or members[1]
        assert member is not None
        table.add_row(where, _shown(member), *(" ".join(_counts(m)) if m else "" for m in members))
    return Group(*map(Text, lines), table)


def _shown(member: Member) -> str:
    return escape(shown(member.text)) or CLASS_NAME_ONLY


def _counts(member: Member) -> tuple[str, str]:
    """Images right, and per cent; empty where nothing was counted."""
    if member.n_correct is None or not member.n_images:
        return "", ""
    return str(member.n_correct), f"{100 * member.n_correct / member.n_images:.2f} %"
