"""`help()` of the public functions: a signature that fits on a screen, and a sentence for each argument."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Callable, Iterator
from typing import Annotated

import pytest
from pydantic import Field, InstanceOf

import wsoup
from wsoup.base.arguments import Whole, at_the_door

SCREEN = 600
"""Characters of a signature: seven lines of 80."""
MACHINERY = ("Annotated", "InstanceOf", "FieldInfo", "Validator", "_PydanticGeneralMetadata", "Union[")


def public() -> Iterator[tuple[str, Callable[..., object]]]:
    """Every public name that can be called, and the methods of classes."""
    for name in wsoup.__all__:
        value = getattr(wsoup, name)
        if not (inspect.isclass(value) and issubclass(value, Exception)):
            yield name, value
        if inspect.isclass(value):
            for method, of_class in vars(value).items():
                function = getattr(of_class, "__func__", of_class)
                if not method.startswith("_") and inspect.isfunction(function):
                    yield f"{name}.{method}", function


FUNCTIONS = dict(public())


def test_machinery_that_stands_in_a_signature_is_not_shown():
    @at_the_door
    def function(
        first: Annotated[dict[str, Whole] | None, Field(max_length=3)] = None, *, second: InstanceOf[int] = 1
    ) -> Annotated[int, Field(ge=0)]:
        return second

    assert str(inspect.signature(function)) == "(first: dict[str, int] | None = None, *, second: int = 1) -> int"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_signature_fits_on_a_screen(name):
    signature = str(inspect.signature(FUNCTIONS[name]))
    assert len(signature) <= SCREEN
    assert not any(word in signature for word in MACHINERY)
    assert "'Features'" not in signature, "names of types are shown without quotes"


def test_help_shows_what_is_passed_and_how_much_is_the_default():
    shown = pydoc.render_doc(wsoup.common_words, renderer=pydoc.plaintext)
    assert "common_words(count: int = 10000) -> list[str]" in shown
    first_screen = pydoc.render_doc(wsoup.word_soup, renderer=pydoc.plaintext)[:1000]
    assert "k0: int = 250, k1: int = 1000, patience: int = 250, m: int = 8" in first_screen
    assert "Algorithm 2" in first_screen


@pytest.mark.parametrize(
    "name", [name for name in FUNCTIONS if inspect.isfunction(FUNCTIONS[name]) and "." not in name]
)
def test_every_argument_is_described_and_its_default_is_said(name):
    function = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    described = arguments(inspect.getdoc(function))
    assert list(described) == list(parameters)
    for argument, parameter in parameters.items():
        assert not re.search("as in `", described[argument]), "the sentence stands here"
        if parameter.default not in (inspect.Parameter.empty, None):
            default = str(parameter.default) if not isinstance(parameter.default, int) else f"{parameter.default:,}"
            assert "default" in described[argument]
            assert default in described[argument] or str(parameter.default) in described[argument]


def arguments(doc: str) -> dict[str, str]:
    """Section Args of a docstring: name -> its sentences; several names may share them."""
    section = doc.partition("Args:\n")[2].partition("\n\n")[0]
    described = {}
    for names, text in re.findall(r"^    ([\w, ]+): (.*(?:\n {8}.*)*)", section, flags=re.MULTILINE):
        for name in names.split(", "):
            described[name] = text
    return described
