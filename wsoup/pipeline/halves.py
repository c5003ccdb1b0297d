"""From base to new classes on each dataset of a params.yaml: which datasets can be divided, and the edits of each run.

In the run of a dataset it is the source with its base classes, and a target with its new ones (CoOp's protocol,
`wsoup.datasets.halves`); the other datasets are left out, and all else is as in params.yaml.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from wsoup.base.errors import ParamsError, WsoupError
from wsoup.datasets import manifest
from wsoup.params.graph import DVC_YAML, graph_of
from wsoup.params.reading import read_yaml
from wsoup.pipeline.params import Params, parse_params
from wsoup.pipeline.planning.machine import machine_of
from wsoup.pipeline.planning.needs import Needs
from wsoup.pipeline.planning.plan import hours

NEW = "_new"
"""Follows a dataset's name in that of its other half."""
LEAST_CLASSES = 4
"""With fewer, one half has a single class, and every image of it is right."""
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
"""Keys that DVC's --set-param can write."""
OF_SOURCE = ("fewshot_pickles",)
"""Keys of a dataset that are about training images."""


class Divided(NamedTuple):
    """The run of one dataset.

    Attributes:
        dataset: its name.
        params: all of params.yaml, edited.
        edits: what `dvc exp run --set-param` makes that of.
    """

    dataset: str
    params: Params
    edits: list[str]


def divided(
    raw: Mapping[str, Any], *, datasets: Mapping[str, Mapping[str, Any]], wanted: Iterable[str] | None
) -> tuple[list[Divided], list[str]]:
    """The run of every dataset that can be divided, and a line on each that cannot.

    Args:
        raw: content of params.yaml.
        datasets: sections of the datasets, which may be others than those of params.yaml.
        wanted: names of datasets; None: all.

    Raises:
        ParamsError: there is no dataset of a wanted name.
    """
    chosen = list(datasets) if wanted is None else list(dict.fromkeys(wanted))
    for name in chosen:
        if name not in datasets:
            raise ParamsError(f"--datasets: there is no dataset {name!r}; expected some of {', '.join(datasets)}")
    runs = []
    left_out = []
    seen: dict[tuple[object, object], str] = {}
    for name in chosen:
        section = datasets[name]
        place = (section.get("layout"), section.get("root", section.get("watch")))
        if place in seen:
            left_out.append(f"{name}: has the images of {seen[place]}")
            continue
        try:
            run = _run(raw, name=name, section=section)
            _check_divisible(name, params=run.params)
        except WsoupError as error:
            left_out.append(f"{name}: {error}")
            continue
        seen[place] = name
        runs.append(run)
    return runs, left_out


def _run(raw: Mapping[str, Any], *, name: str, section: Mapping[str, Any]) -> Divided:
    both = {
        name: {**section, "role": "source", "classes": "base"},
        f"{name}{NEW}": {
            **{key: value for key, value in section.items() if key not in OF_SOURCE},
            "role": "xd",
            "classes": "new",
        },
    }
    edits = [f"source={literal(name)}", "~datasets"]
    for half, keys in both.items():
        edits += _edits(f"datasets.{half}", keys)
    edited = {**raw, "source": name, "datasets": both}
    return Divided(name, parse_params(edited, origin=f"params.yaml with the classes of {name} divided"), edits)


def _edits(place: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Edits that add keys at a place."""
    for key, value in values.items():
        where = f"{place}.{key}"
        if isinstance(value, Mapping):
            yield from _edits(where, value)
            continue
        wrong = next((part for part in where.split(".") if not KEY.fullmatch(part)), None)
        if wrong is not None:
            raise ParamsError(
                f"{where}: DVC's --set-param cannot write {wrong!r}; it takes a letter a to z, then letters, digits, "
                "_ and -: rename it in params.yaml"
            )
        yield f"+{where}={literal(value)}"


def literal(value: object) -> str:
    r"""A value as DVC's --set-param reads it (Hydra's grammar): in quotes, with what means something there escaped.

    >>> print(literal("it's a {}."), literal(["a", None, True, 0.5]))
    'it\'s a {}.' ['a',null,true,0.5]
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(literal, value))}]"
    # Backslashes count as themselves, but before what is escaped.
    text = re.sub(r"(\\*)\$\{", r"\1\1\\${", str(value))
    text = re.sub(r"(\\*)'", r"\1\1\\'", text)
    text = re.sub(r"(\\+)$", r"\1\1", text)
    return f"'{text}'"


def _check_divisible(name: str, *, params: Params) -> None:
    """Raise a WsoupError that says why a dataset has no two halves, or cannot be learned from."""
    section = params.datasets[name]
    whole = section.model_copy(update={"classes": None})
    listing = manifest.read_listing(name, params=whole)
    if len(listing.class_names) < LEAST_CLASSES:
        raise ParamsError(f"has {len(listing.class_names)} classes; two halves need {LEAST_CLASSES}")
    has_training = "train" in listing.splits and len(listing.split("train").labels)
    if not has_training:
        raise ParamsError("has no training images; test_fraction: 0.5 in its section divides a folder or a list")


def hours_of(run: Divided) -> float:
    """About how long a run takes here, at most: as if every stage ran, and each half had all classes."""
    needs = Needs(run.params)
    machine = machine_of(None, devices=1, half_precision=run.params.encoder.precision in ("bf16", "fp16"))
    raw = run.params.model_dump(mode="json", by_alias=True)
    stages = graph_of(read_yaml(DVC_YAML), params=raw).stages
    return sum(hours(needs.of(stage), machine) for stage in stages)
