"""A setting of a kind of soup is whole: its search reads it, docs/pipeline.md has it, Python functions take it."""

from __future__ import annotations

import ast
import inspect
import re

import pytest
from half_done import unread_keys, unused
from processes import ROOT
from soup_cases import MODELS, file_of

from wsoup.api import soups as api
from wsoup.disk import code
from wsoup.search.grow import search
from wsoup.search.grow.all_kinds import SoupParams

OF_EVERY_KIND = {"kind", "pool"}
"""`Search` and stages read these."""
FUNCTIONS = {"greedy": api.descriptor_soup, "chains": api.word_soup}
"""The functions of Python that search a soup of a kind."""
NOT_IN_PYTHON: dict[str, str] = {}
"""Settings of these two kinds that are no argument, each with the reason."""


def settings(model: type[SoupParams]) -> list[str]:
    return [name for name in model.model_fields if name not in OF_EVERY_KIND]


def read_by(source: str, *, owner: str) -> set[str]:
    """Names that a source reads of `owner`.

    >>> sorted(read_by("self.m = self.members()", owner="self"))
    ['members']
    """
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            value = node.value
            of_owner = isinstance(value, ast.Name) and value.id == owner
            if of_owner or (isinstance(value, ast.Attribute) and value.attr == owner):
                names.add(node.attr)
    return names


def read_settings(model: type[SoupParams]) -> set[str]:
    """What its own methods and the search of any kind read; a limit on candidates is read by its key."""
    names = read_by(inspect.getsource(search), owner="definition")
    for cls in model.__mro__:
        if cls.__module__.startswith("wsoup.search.grow"):
            names |= read_by(inspect.getsource(cls), owner="self")
    return names | {"k1"}


def test_every_kind_is_listed() -> None:
    missing = code.kinds().keys() - MODELS.keys()
    assert not missing, f"wsoup/search/grow/all_kinds.py: SoupParams does not have the kinds {sorted(missing)}"


@pytest.mark.parametrize("kind", MODELS)
def test_every_setting_is_read(kind: str) -> None:
    """One that is declared and not used would leave all other tests green."""
    model = MODELS[kind]
    for setting in set(settings(model)) - read_settings(model):
        pytest.fail(
            f"{file_of(model)}: setting {setting!r} of kind {kind} is declared and never read: use it in members() or "
            "measure(); or, if it decides which candidates there are, in Search.ranked (wsoup/search/grow/search.py)"
        )


def test_every_key_of_pools_and_kinds_is_read() -> None:
    assert not unread_keys("search"), "\n".join(unread_keys("search"))


def test_everything_is_used() -> None:
    assert not unused("search"), "\n".join(unused("search"))


def rows_of_kinds() -> dict[str, set[str]]:
    """Kind -> the settings that the table of docs/pipeline.md names for it; its head names those of every kind."""
    page = (ROOT / "docs/pipeline.md").read_text(encoding="utf-8")
    _, _, section = page.partition("## Kinds of soups")
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    rows = {}
    for line in lines:
        _, kind, *_, listed, _ = line.split("|")
        rows[kind.strip(" `")] = set(re.findall(r"`(\w+)`", listed))
    head = rows.pop("kind")
    return {kind: head | row for kind, row in rows.items()}


@pytest.mark.parametrize("kind", MODELS)
def test_every_setting_is_in_the_docs(kind: str) -> None:
    expected = {*settings(MODELS[kind]), "pool"}
    row = rows_of_kinds().get(kind)
    where = 'docs/pipeline.md: the table of "Kinds of soups"'
    assert row is not None, f"{where} has no row for the kind {kind}"
    missing, unknown = sorted(expected - row), sorted(row - expected)
    assert not missing, f"{where} does not name {missing} in the row of {kind}"
    assert not unknown, f"{where} names {unknown} in the row of {kind}, which has no such setting"


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_every_setting_is_an_argument_of_the_python_function(kind: str) -> None:
    """With the same default, if it has one; and the function hands it on."""
    function, model = FUNCTIONS[kind], MODELS[kind]
    arguments = inspect.signature(function).parameters
    where = f"wsoup/api/soups.py: {function.__name__}()"
    # As it is written, without the checks of arguments around it.
    (tree,) = [node for node in ast.walk(ast.parse(inspect.getsource(api))) if is_function(node, function.__name__)]
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for setting in settings(model):
        if setting in NOT_IN_PYTHON:
            continue
        reason = "add it and hand it on, or give a reason in NOT_IN_PYTHON of tests/search/test_settings.py"
        assert setting in arguments, f"{where} has no argument {setting!r}, a setting of {file_of(model)}: {reason}"
        assert setting in read, f"{where} takes {setting!r} and does not hand it on to its definition"
        field = model.model_fields[setting]
        if not field.is_required():
            same = f"{where} and {file_of(model)} have different defaults of {setting!r}"
            assert arguments[setting].default == field.default, same


def is_function(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == name
