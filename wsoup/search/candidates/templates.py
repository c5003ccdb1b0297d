"""Lists of prompt templates: those that come with wsoup, and files of one's own.

A file has one template a line, each with exactly one ``{}``, or ``{c}`` as in CLIP_benchmark's files. A ``.json`` is a
list of templates, or what ``clip_benchmark eval --custom_template_file`` takes: one list under the name of a dataset.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from wsoup.base.errors import MissingError, PoolError, shown_value
from wsoup.core.prompts import bare, is_template
from wsoup.disk.files import read_text
from wsoup.search.pools.lists import numbered, unique
from wsoup.search.pools.params import LISTED_TEMPLATES

SEVEN = (
    "itap of a {}.",
    "a bad photo of the {}.",
    "a origami {}.",
    "a photo of the large {}.",
    "a {} in a video game.",
    "art of the {}.",
    "a photo of the small {}.",
)
"""Those that OpenAI selected from its 80, by forward selection on ImageNet (openai/CLIP, notebooks/
Prompt_Engineering_for_ImageNet.ipynb)."""
_CODE = re.compile(r"lambda\b.*|[fr]?([\"']).*\1,|f([\"']).*\2")
"""A line of a list in Python, as CLIP's notebooks have them."""


def templates_of(source: str) -> list[str]:
    """The templates of a file, or the seven of OpenAI, in their order, each with one ``{}``.

    Raises:
        MissingError: no such file.
        PoolError: a line of code, one without exactly one placeholder, or twice; no templates.
    """
    if source == "openai7":
        return list(SEVEN)
    try:
        by_number = _of_json(source) if source.endswith(".json") else numbered(source)
    except MissingError:
        raise MissingError(
            f"{source} does not exist; name a file of templates, or {' or '.join(LISTED_TEMPLATES)} (under "
            "evaluate.templates also simple)"
        ) from None
    return _unique(by_number, origin=source)


def checked_templates(templates: Sequence[str], *, origin: str) -> list[str]:
    """Templates with ``{}``; raises as `templates_of`, naming `origin`."""
    return _unique(dict(enumerate(templates, start=1)), origin=origin)


def _unique(by_number: Mapping[int, str], *, origin: str) -> list[str]:
    checked = {number: _checked(text, number=number, origin=origin) for number, text in by_number.items()}
    return unique(checked, origin=origin, numbers_are="templates")


def _checked(text: str, *, number: int, origin: str) -> str:
    """A template with ``{}``."""
    if _CODE.fullmatch(text.strip()):
        raise PoolError(
            f"{origin}, template {number}: {shown_value(text)} is code; expected one template a line, without "
            "quotation marks and commas, such as: a photo of a {}."
        )
    template = bare(text.replace("{c}", "{}"))
    if not is_template(template) or template.count("{}") > 1:
        raise PoolError(
            f"{origin}, template {number}: {shown_value(text)} must hold exactly one placeholder, {{}} or {{c}}, for "
            "the class name"
        )
    return template


def _of_json(path: str) -> Mapping[int, str]:
    """The templates of a JSON file by their number from 1."""
    expected = "a list of templates, or one list under the name of a dataset"
    try:
        content = json.loads(read_text(Path(path), kind=PoolError))
    except ValueError as error:
        raise PoolError(f"{path} is not JSON ({error}); expected {expected}") from None
    if isinstance(content, dict) and len(content) == 1:
        (content,) = content.values()
    if not isinstance(content, list) or not all(isinstance(text, str) for text in content):
        raise PoolError(f"{path} holds {shown_value(content)}; expected {expected}")
    return dict(enumerate(content, start=1))
