"""No word of pydantic's reaches a user: every kind of error says the place, the value and what it must be."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pytest
import torch
from pydantic import Field, TypeAdapter, ValidationError

import wsoup
from wsoup.base.arguments import at_the_door
from wsoup.base.errors import WsoupError
from wsoup.base.validation import expectation, in_file
from wsoup.disk import store
from wsoup.finetune.tuned import read_tuned_config
from wsoup.report.lines import read_lines

PYDANTICS = ("nput should", "Field required", "after validation", "Value error", "should have", "should match", "valid")
"""What its messages have and ours do not, but for "is not valid"."""

# ------------------------------------------------------------------------------------------------ by kind of error

KINDS: dict[str, tuple[Any, Any, str]] = {
    "int_type": (int, "x", "an integer"),
    "int_parsing": (int, "3.x", "an integer"),
    "int_from_float": (int, 1.5, "an integer"),
    "float_type": (float, None, "a number"),
    "float_parsing": (float, "x", "a number"),
    "finite_number": (Annotated[float, Field(allow_inf_nan=False)], float("nan"), "a number, neither infinite nor NaN"),
    "bool_type": (bool, None, "true or false"),
    "bool_parsing": (bool, "perhaps", "true or false"),
    "none_required": (None, 3, "null"),
    "string_type": (str, 3, "text"),
    "string_unicode": (Annotated[str, Field(max_length=9)], "\ud800", "plain text: it holds a lone surrogate"),
    "string_too_short": (Annotated[str, Field(min_length=2)], "a", "a text of 2 character or more"),
    "string_too_long": (Annotated[str, Field(max_length=2)], "abc", "a text of 2 characters or fewer"),
    "path_type": (Path, 3, "the path of a file"),
    "callable_type": (Callable, 3, "a function, or another object that can be called"),
    "list_type": (list[int], 3, "a list"),
    "tuple_type": (tuple[int, ...], 3, "a list"),
    "sequence_str": (Sequence[str], "ab", "a list"),
    "is_instance_of": (Sequence[str], 3, "a list"),
    "dict_type": (dict[str, int], 3, "a dict"),
    "greater_than_equal": (Annotated[int, Field(ge=1)], 0, "1 or more"),
    "greater_than": (Annotated[int, Field(gt=1)], 1, "more than 1"),
    "less_than_equal": (Annotated[int, Field(le=1)], 2, "1 or less"),
    "less_than": (Annotated[int, Field(lt=1)], 1, "less than 1"),
    "too_short": (Annotated[list[int], Field(min_length=1)], [], "a list of 1 or more"),
    "too_long": (Annotated[list[int], Field(max_length=1)], [1, 2], "a list of 1 or fewer"),
    "literal_error": (Literal["word", "soup"], "wrd", "one of word, soup; did you mean 'word'?"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_error_is_said_in_our_words(kind: str) -> None:
    annotation, value, expected = KINDS[kind]
    strict = kind in ("int_type", "float_type", "bool_type")
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(annotation).validate_python(value, strict=strict)
    problem = raised.value.errors()[0]
    assert problem["type"] == kind
    assert expectation(problem, words={}) == expected


def test_a_dict_that_is_too_short_has_entries() -> None:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(Annotated[dict[str, int], Field(min_length=1)]).validate_python({})
    assert expectation(raised.value.errors()[0], words={}) == "entries: 1 or more"


def test_a_value_that_holds_a_comma_or_an_or_is_named_whole() -> None:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(Literal["a, b", "this or that", "x-1", 2, None]).validate_python("x-2")
    expected = "one of a, b, this or that, x-1, 2, None; did you mean 'x-1'?"
    assert expectation(raised.value.errors()[0], words={}) == expected


# ------------------------------------------------------------------------------------------------------- arguments


@at_the_door
def door(
    *,
    count: Annotated[int, Field(ge=1, strict=True)] = 1,
    names: Annotated[Sequence[str], Field(min_length=1)] = ("a",),
    sizes: Mapping[str, list[float]] | None = None,
    mode: Literal["centroid", "score_mean"] = "centroid",
) -> None:
    """A public function."""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"count": "3"}, "count is '3'; expected an integer"),
        ({"count": 0}, "count is 0; expected 1 or more"),
        ({"names": []}, "names is []; expected a list of 1 or more"),
        ({"names": ["a", 3]}, "names[1] is 3; expected text"),
        ({"names": 3}, "names is 3; expected a list"),
        ({"sizes": {"mean": [0.5, "x"]}}, "sizes['mean'][1] is 'x'; expected a number"),
        ({"mode": 3}, "mode is 3; expected one of centroid, score_mean"),
        ({"mode": "centroids"}, "mode is 'centroids'; expected one of centroid, score_mean; did you mean 'centroid'?"),
    ],
)
def test_an_argument(given: dict[str, Any], message: str) -> None:
    with pytest.raises(WsoupError) as raised:
        door(**given)
    assert str(raised.value) == message


# ----------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("annotation", "text", "message"),
    [
        (dict[str, list[int]], '{"a": [1, "x"]}', "a: entry 2: 'x' is not valid: it must be an integer"),
        (dict[str, list[int]], '{"a": 3}', "a: 3 is not valid: it must be a list"),
        (dict[str, int], "[]", "[] is not valid: it must be an object of keys and values"),
        (list[tuple[str, int]], '[["a"]]', "entry 1: entry 2 is missing"),
        (dict[str, int], '{"a": 1', "it is not JSON (EOF while parsing an object at line 1 column 7)"),
    ],
)
def test_a_file(annotation: Any, text: str, message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(annotation).validate_json(text, strict=True)
    assert in_file(raised.value) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "1"}, "seed is '1'; expected an integer"),
        ({"seed": -1}, "seed is -1; expected 0 or more"),
        ({"members": []}, "members is []; expected a list of 1 or more"),
        ({"members": 3}, "members is 3; expected a list"),
        ({"members": [{"text": 3, "trace": []}]}, "members[0]['text'] is 3; expected text"),
        (
            {"members": [{"text": "x", "trace": [{"added": 1, "n_correct": 2}]}]},
            "members[0]['trace'][0]['added'] is 1;",
        ),
        ({"encoder": 3}, "encoder is 3; expected a dict"),
        (
            {"cost": {"ranking": {"texts": "a", "tokens": 1, "flops": 1}}},
            "cost['ranking']['texts'] is 'a'; expected",
        ),
        ({"memberz": []}, "unknown key 'memberz'; did you mean 'members'?"),
        ({"template": None}, "template is None; expected text"),
    ],
)
def test_a_soup_file(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    member = {"text": "x", "trace": []}
    encoder = {"model": "m", "pretrained": None}
    soup = {"kind": "greedy", "seed": 1, "template": "a {}.", "encoder": encoder, "members": [member]}
    file = tmp_path / "soup.json"
    file.write_text(json.dumps({**soup, **change}))
    with pytest.raises(WsoupError) as raised:
        wsoup.Soup.load(file)
    assert str(raised.value).startswith(f"{file} is not a soup: {message}")
    assert not any(word in str(raised.value) for word in PYDANTICS)


def test_a_soup_file_that_lacks_a_key(tmp_path: Path) -> None:
    file = tmp_path / "soup.json"
    file.write_text('{"kind": "greedy", "seed": 1, "template": "a {}.", "encoder": {"model": "m"}}')
    with pytest.raises(WsoupError, match="is not a soup: key 'members' is missing"):
        wsoup.Soup.load(file)


def test_a_soup_is_not_a_head(tmp_path: Path) -> None:
    file = tmp_path / "soup.json"
    file.write_text('{"kind": "greedy"}')
    with pytest.raises(WsoupError, match=r"soup\.json is not a head: it is JSON, such as a soup, which wsoup"):
        wsoup.Head.load(file)


def test_a_results_file_and_a_tuned_model(tmp_path: Path) -> None:
    store.write_table(tmp_path / "results.parquet", pa.table({"method": ["word"], "m": [8]}))
    with pytest.raises(WsoupError, match="not as its stage wrote it: entry 1: key 'variant' is missing") as raised:
        read_lines(tmp_path / "results.parquet", variant="pretrained", datasets=["shapes"])
    assert not any(word in str(raised.value) for word in PYDANTICS)
    store.write_checked_object(tmp_path / "config.json", {"tune": {"kind": "coop", "n_context": "four"}})
    with pytest.raises(WsoupError, match="holds no tuned model or is damaged") as raised:
        read_tuned_config(tmp_path)
    assert not any(word in str(raised.value).replace("is not valid", "") for word in PYDANTICS)


def test_no_images(tmp_path: Path) -> None:
    with pytest.raises(WsoupError) as raised:
        wsoup.encode_images([], model=torch.nn.Linear(1, 1), preprocess=len)
    assert str(raised.value) == "paths is []; expected a list of 1 or more"
