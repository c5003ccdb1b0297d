"""Keys that dvc.yaml names and params.yaml lacks: DVC names only the first, after the stages before it have run."""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path

from wsoup.params.graph import DVC_YAML, PARAMS, Graph, read_graph, value_at
from wsoup.params.reading import read_yaml


def missing_keys(params: str | Path = PARAMS) -> Iterator[str]:
    """A sentence for each key that dvc.yaml names and params.yaml lacks, though params may do without it.

    Args:
        params: the file to look at.
    """
    values = read_yaml(params)
    try:
        stages = _lacking(read_graph(params), values)
    except (AttributeError, LookupError, TypeError):
        return  # not a dvc.yaml, which DVC itself says
    for key, stage in stages.items():
        section, _, last = key.rpartition(".")
        siblings = value_at(values, section) if section else values
        step = "add it (docs/params.md explains it)"
        if isinstance(siblings, Mapping):
            # Params knows all keys that are there, so one very much like it is what dvc.yaml should name.
            near = difflib.get_close_matches(last, siblings, n=1, cutoff=0.75)
            if near:
                step = f"did you mean {near[0]!r}?"
        yield f"{params} lacks {key!r}, which {DVC_YAML} names for stage {stage}; {step}"


def _lacking(graph: Graph, values: Mapping[str, object]) -> dict[str, str]:
    """Each key that is not there, and the first stage that needs it."""
    stages: dict[str, str] = {}
    for stage in graph.stages.values():
        # The keys of a project's own stages are its own affair.
        if stage.is_own:
            for key in [*stage.own_keys, *stage.filled_in]:
                if value_at(values, key) is None:
                    stages.setdefault(key, stage.name)
    return stages
