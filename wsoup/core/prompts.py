"""Prompts as strings: class names, templates, and a class name joined with a descriptor or a chain of words.

There is one way to join them: fill the template with the class name and replace its final period by
``", " + text + "."``. A text is stored bare: no leading comma or space, no final period. Whether candidates have the
final period while they are ranked and searched depends on their pool: the authors' descriptors do, their words do not
(Chris210634/word_soups, preprocess/). Everything that is evaluated has it.

A text that holds ``{}`` is a template itself, and nothing is added to it: filled with the class name it is the whole
prompt. So a text says by itself in which of the two ways it makes a prompt.
"""

from collections.abc import Sequence

from wsoup.base.errors import ParamsError
from wsoup.base.folder_names import composed


def clean_class_name(name: str) -> str:
    """A class name with underscores as spaces, white space collapsed and letters composed (NFC); its case is kept.

    >>> clean_class_name("red_wolf "), len(clean_class_name("cafe" + chr(0x301)))
    ('red wolf', 4)
    """
    return composed(" ".join(name.replace("_", " ").split()))


def checked(template: str) -> str:
    """The template unchanged; ParamsError unless it has exactly one placeholder, ``{}`` or ``{c}``."""
    placeholders = template.count("{}") + template.count("{c}")
    if placeholders != 1:
        raise ParamsError(f"template {template!r} must hold exactly one placeholder, {{}} or {{c}}, for the class name")
    return template


def is_template(text: str) -> bool:
    """Whether a text is a whole prompt with ``{}`` for the class name, and not what follows a class name.

    >>> is_template("art of the {}."), is_template("which has claws")
    (True, False)
    """
    return "{}" in text


def stem(template: str, class_name: str) -> str:
    """The filled template without its final period: the beginning of every text of this class.

    A period at the end of the class name stays, as it does in `wsoup.core.soup.Soup.templates`.

    >>> stem("a photo of a {}.", "cat"), stem("a photo of the {}", "Capitol in D.C.")
    ('a photo of a cat', 'a photo of the Capitol in D.C.')
    """
    unfinished = checked(template.removesuffix("."))
    return unfinished.replace("{c}", "{}").replace("{}", class_name)


def stems(template: str, class_names: Sequence[str]) -> list[str]:
    """`stem` of every class, in label order: (C,)."""
    return [stem(template, name) for name in class_names]


def ending(text: str, *, period: bool) -> str:
    """What follows the stem: ``", which has claws."``; only the period for the empty text.

    >>> ending("which has claws", period=True), ending("sharp", period=False), ending("", period=True)
    (', which has claws.', ', sharp', '.')
    """
    after = f", {text}" if text else ""
    if period:
        after += "."
    return after


def with_comma(stems: Sequence[str]) -> list[str]:
    """Stems with the comma, for `after_comma`: "a photo of a cat,"."""
    return [f"{stem}," for stem in stems]


def after_comma(text: str, *, period: bool) -> str:
    """What follows a stem with its comma: it begins with a space, where tokens never merge, unless the text is empty.

    >>> after_comma("which has claws", period=True), after_comma("sharp", period=False)
    (' which has claws.', ' sharp')
    """
    return ending(text, period=period).removeprefix(",")


def prompt(template: str, class_name: str, text: str = "", *, period: bool = True) -> str:
    """The whole prompt of one class with one descriptor or word chain, or with a template in place of the dataset's.

    >>> prompt("a photo of a {}.", "cat", "which has claws"), prompt("a photo of a {}.", "cat", "art of the {}")
    ('a photo of a cat, which has claws.', 'art of the cat')
    """
    if is_template(text):
        return text.replace("{}", class_name)
    return stem(template, class_name) + ending(text, period=period)


def bare(text: str) -> str:
    """A text as it is stored: white space collapsed; a descriptor without leading comma and final period.

    >>> bare(", which has  claws. "), bare("art of  the {}.")
    ('which has claws', 'art of the {}.')
    """
    collapsed = " ".join(text.split())
    if is_template(collapsed):
        return collapsed
    return collapsed.lstrip(", ").rstrip(". ")
