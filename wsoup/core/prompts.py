"""Strings only: class names, templates, and joining a class name with a descriptor or a chain of words.

There is one text path (DESIGN section 4): the template is filled with the class name and its final period is replaced
by ``", " + text + "."``. A text is stored bare: no leading comma or space, no final period. Whether a candidate carries
the final period while it is ranked and searched belongs to its pool: the authors' descriptors end in one, their words
do not (Chris210634/word_soups, preprocess/); everything that is evaluated carries it.
"""

from __future__ import annotations

from collections.abc import Sequence

from wsoup.core.errors import ParamsError


def clean_class_name(name: str) -> str:
    """Underscores become spaces, runs of white space one space, ends stripped; letters keep their case.

    >>> clean_class_name("red_wolf ")
    'red wolf'
    """
    return " ".join(name.replace("_", " ").split())


def fill(template: str, class_name: str) -> str:
    """The prompt of a class without a descriptor. The one placeholder is ``{}`` or ``{c}``.

    >>> fill("a photo of a {}, a type of pet.", "Beagle")
    'a photo of a Beagle, a type of pet.'
    """
    return checked(template).replace("{c}", "{}").replace("{}", class_name)


def checked(template: str) -> str:
    """The template itself; ParamsError unless it holds exactly one placeholder."""
    if template.count("{}") + template.count("{c}") != 1:
        raise ParamsError(f"template {template!r} must hold exactly one placeholder, {{}} or {{c}}, for the class name")
    return template


def stem(template: str, class_name: str) -> str:
    """The template without its final period, filled: what every text of this class begins with.

    A period that is the class name's own stays, as in a template that others fill (`wsoup.soup.soup.Soup.templates`).

    >>> stem("a photo of a {}.", "cat"), stem("a photo of the {}", "Capitol in D.C.")
    ('a photo of a cat', 'a photo of the Capitol in D.C.')
    """
    return fill(template.removesuffix("."), class_name)


def stems(template: str, class_names: Sequence[str]) -> list[str]:
    """`stem` of every class, in label order: (C,)."""
    return [stem(template, name) for name in class_names]


def ending(text: str, *, period: bool) -> str:
    """What follows the stem: ``", which has claws."``; for the empty text just the period.

    >>> ending("which has claws", period=True), ending("sharp", period=False), ending("", period=True)
    (', which has claws.', ', sharp', '.')
    """
    return (f", {text}" if text else "") + ("." if period else "")


def with_comma(stems: Sequence[str]) -> list[str]:
    """Stems that the comma is counted to, for `after_comma`: "a photo of a cat,"."""
    return [f"{stem}," for stem in stems]


def after_comma(text: str, *, period: bool) -> str:
    """What follows a stem with its comma. It begins with a space, where tokens never merge; the empty text does not.

    >>> after_comma("which has claws", period=True), after_comma("sharp", period=False)
    (' which has claws.', ' sharp')
    """
    return ending(text, period=period).removeprefix(",")


def prompt(template: str, class_name: str, text: str = "", *, period: bool = True) -> str:
    """The whole text for one class and one descriptor or word chain.

    >>> prompt("a photo of a {}.", "cat", "which has claws")
    'a photo of a cat, which has claws.'
    """
    return stem(template, class_name) + ending(text, period=period)


def bare(text: str) -> str:
    """A descriptor as it is stored: white space folded, no leading comma, no final period.

    >>> bare(", which has  claws. ")
    'which has claws'
    """
    return " ".join(text.split()).lstrip(", ").rstrip(". ")
