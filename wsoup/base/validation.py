"""What pydantic refuses, in our words: where a value stands, and what it must be.

The one place that translates, for params.yaml, for lists and other files, and for arguments of public functions.
"""

import dataclasses
import difflib
import re
from collections.abc import Mapping, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from wsoup.base.errors import shown_value

EXPECTED = {
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "int_parsing_size": "an integer that is far smaller",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number, neither infinite nor NaN",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "none_required": "null",
    "string_type": "text",
    "string_sub_type": "text",
    "string_unicode": "plain text: it holds a lone surrogate",
    "string_too_short": "a text of {min_length} character or more",
    "string_too_long": "a text of {max_length} characters or fewer",
    "path_type": "the path of a file",
    "callable_type": "a function, or another object that can be called",
    "list_type": "a list",
    "tuple_type": "a list",
    "sequence_str": "a list",
    "iterable_type": "a list",
    "dict_type": "a dict",
    "mapping_type": "a dict",
    "model_type": "a dict",
    "model_attributes_type": "a dict",
    "dataclass_type": "a {class_name}, or a dict of its fields",
    "invalid_key": "a key that is text",
    "greater_than_equal": "{ge} or more",
    "greater_than": "more than {gt}",
    "less_than_equal": "{le} or less",
    "less_than": "less than {lt}",
    "too_short": "a list of {min_length} or more",
    "too_long": "a list of {max_length} or fewer",
}
"""Kind of pydantic's error -> what the value must be; in braces what its context holds."""
IN_A_FILE = {
    "dict_type": "an object of keys and values",
    "model_type": "an object of keys and values",
    "string_pattern_mismatch": "the name of a file, without a folder",
}
"""The same where the value stands in a file; only names of files have a pattern there."""
OF_A_DICT = {
    "too_short": "entries: {min_length} or more",
    "too_long": "entries: {max_length} or fewer",
}
"""The same for the length of a dict."""
DICTS = ("Dictionary", "Mapping")
"""What pydantic calls a dict where its length is wrong."""
NAMED = re.compile(r"'[^']*'|\b(?!or\b)\w+")
"""One of the values that pydantic names: a text in quotes, which may hold commas, or else a number, true or null."""
CLASSES = {"Sequence": "a list", "Mapping": "a dict"}
"""Abstract classes by the type that a user knows."""


def expectation(problem: ErrorDetails, *, words: Mapping[str, str]) -> str:
    """What the value of one of pydantic's errors must be: ``an integer``, ``one of a, b; did you mean 'b'?``.

    Args:
        problem: of `ValidationError.errors()`.
        words: what goes before `EXPECTED`, by kind.
    """
    kind = problem["type"]
    context = problem.get("ctx", {})
    if kind == "literal_error":
        return _one_of(problem["input"], expected=context["expected"])
    if kind == "union_tag_invalid":
        return _one_of(context["tag"], expected=context["expected_tags"])
    if kind == "is_instance_of":
        return CLASSES.get(context["class"], f"a {context['class']}")
    known = {**EXPECTED, **words}
    if context.get("field_type") in DICTS:
        known |= OF_A_DICT
    if kind in known:
        return known[kind].format(**context)
    if "error" in context:
        # Raised by a validator of our own, whose words it has.
        return _begun(str(context["error"]))
    return _begun(problem["msg"].removeprefix("Input should be "))


def _begun(message: str) -> str:
    """A message as it goes on in the middle of a sentence."""
    return f"{message[0].lower()}{message[1:]}"


def _one_of(value: object, *, expected: str) -> str:
    """What a value must be, of those that pydantic names, which has them in no other form: ``'a', 'b' or 'c'``."""
    names = [name.strip("'") for name in NAMED.findall(expected)]
    listed = f"one of {', '.join(names)}"
    if len(names) == 1:
        listed = names[0]
    if not isinstance(value, str):
        return listed  # an object of a user's may not even have a text
    near = difflib.get_close_matches(value, names, n=1, cutoff=0.5)
    if not near:
        return listed
    return f"{listed}; did you mean {near[0]!r}?"


def nearest(name: str, *, known: Sequence[str], lacking: Sequence[str] = ()) -> str:
    """A hint for a name that is not known: the nearest one that is, or all of them.

    Args:
        name: the name.
        known: names that would be right.
        lacking: those of them that are not there, of which it is more likely a typo.
    """
    for names in (lacking, known):
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        if near:
            return f"did you mean {near[0]!r}?"
    return f"there are {', '.join(known)}"


def keys_in(value: object, *, location: Sequence[int | str], missing: bool) -> list[str]:
    """The keys of a location that the value has: pydantic adds which member of a union it tried, and steps of its own.

    Args:
        value: what was validated.
        location: of the error, without "[key]".
        missing: whether the error is that the last key is not there.
    """
    # The other parts of a location, such as the tag "chains", would name no line of the file.
    keys = []
    last = len(location) - 1
    for i, part in enumerate(location):
        inner = _inner(value, part)
        if inner is not _NOTHING or (missing and i == last):
            keys.append(str(part))
        if inner is not _NOTHING:
            value = inner
    return keys


_NOTHING = object()


def _inner(value: object, part: int | str) -> object:
    """What a mapping, a list or a dataclass has under a key, or `_NOTHING`."""
    if isinstance(value, Mapping):
        return value.get(part, _NOTHING)
    if isinstance(part, int):
        if not isinstance(value, Sequence):
            return None  # of an array or a table, whose further keys nobody needs
        if part < len(value):
            return value[part]
    elif dataclasses.is_dataclass(value) and hasattr(value, part):
        return getattr(value, part)
    return _NOTHING


def in_file(error: ValidationError) -> str:
    """The first problem in the contents of a file: the place, the value and what it must be.

    >>> from pydantic import TypeAdapter
    >>> try:
    ...     TypeAdapter(dict[str, list[int]]).validate_python({"label": [3, "x"]}, strict=True)
    ... except ValidationError as error:
    ...     print(in_file(error))
    label: entry 2: 'x' is not valid: it must be an integer
    """
    problem = error.errors()[0]
    steps = []
    for part in problem["loc"]:
        # People count the rows of a list from one.
        steps.append(f"entry {part + 1}" if isinstance(part, int) else str(part))
    if problem["type"] == "json_invalid":
        return f"it is not JSON ({problem['ctx']['error']})"
    if problem["type"] == "missing":
        return _missing(steps, beside=problem["input"])
    must_be = expectation(problem, words=IN_A_FILE)
    place = "".join(f"{step}: " for step in steps)
    return f"{place}{shown_value(problem['input'])} is not valid: it must be {must_be}"


def _missing(steps: Sequence[str], *, beside: object) -> str:
    """That the last step is not there, with a key beside it that may be a typo of it."""
    *above, last = steps
    place = "".join(f"{step}: " for step in above)
    if not isinstance(beside, Mapping):
        return f"{place}{last} is missing"
    near = difflib.get_close_matches(last, [str(key) for key in beside], n=1, cutoff=0.7)
    if near:
        return f"{place}key {last!r} is missing; is {near[0]!r} a typo of it?"
    return f"{place}key {last!r} is missing"
