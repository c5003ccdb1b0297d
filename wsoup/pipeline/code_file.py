"""artifacts/code.yaml: what the code of each stage means, and whether a stage is about to run that code.

A key of params.yaml that dvc.yaml does not list, since params.yaml may lack it (`wsoup.params.graph.optional_keys`),
counts as code of its stage: its default is written there, and another value changes the digest as an edit would.

A stage that is run by hand, or by ``dvc repro --single-item``, may follow an edit that stage `code` has not seen. It
then refuses to run, since DVC would record its results under the digest of other code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from wsoup.base.errors import ChangedError, MismatchError
from wsoup.disk import code, syntax
from wsoup.params.graph import CODE, Stage, read_graph, value_at
from wsoup.params.reading import read_yaml
from wsoup.params.section import Section
from wsoup.pipeline.installed import RECORD
from wsoup.pipeline.params import load_params
from wsoup.pipeline.unchanged import state_of

HEAD = "# What the code of each stage means (stage `code`): a comment changes nothing here, an operator its stages.\n"


class _Quoting(yaml.SafeDumper):
    """PyYAML, which also quotes what YAML 1.2, as DVC reads it, takes for a number: 4279269422e21659 is infinite."""


_Quoting.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[0-9]+(e[0-9]+)?$"), list("0123456789"))


def as_yaml(digests: Mapping[str, object]) -> bytes:
    """The content of artifacts/code.yaml."""
    return (HEAD + yaml.dump(dict(digests), Dumper=_Quoting)).encode()


def digests(stages: Path) -> dict[str, Any]:
    """What stage `code` would write now: the digest of each stage, of soups by kind.

    Args:
        stages: the folder of the scripts.
    """
    by_stage: dict[str, Any] = code.digests(stages)
    for stage in read_graph().stages.values():
        if stage.optional and str(stage.code_key) in by_stage:  # a folder may lack its scripts
            by_stage[str(stage.code_key)] = digest_of(stage, stages=stages)
    return by_stage


def digest_of(stage: Stage, *, stages: Path) -> str:
    """The digest of the code that a stage would run now, with its optional keys.

    Args:
        stage: it names its key in artifacts/code.yaml, such as ``score`` or ``soup.chains``.
        stages: the folder of the scripts.
    """
    digest = code.digest(_files(stage, stages=stages))
    settings = optional_settings(stage)
    if not settings:
        return digest
    return syntax.short_digest(json.dumps([digest, settings], sort_keys=True))


def optional_settings(stage: Stage) -> dict[str, object]:
    """The optional keys of a stage, within its section, that do not have their default, and their values."""
    if not stage.optional:
        return {}
    name, _, _ = stage.name.partition("@")
    section: Section = getattr(load_params(), name)
    meant = section.meant(mode="json")
    keys = [key.removeprefix(f"{name}.") for key in stage.optional]
    return {key: meant[key] for key in keys if key in meant}


def _files(stage: Stage, *, stages: Path) -> list[Path]:
    name, _, kind = str(stage.code_key).partition(".")
    files = [stages / f"{name}.py"]
    if kind:
        files.append(code.kinds()[kind])
    return code.modules(*files)


def check_code(stage: Stage | None, *, stages: Path) -> None:
    """Compare the code that a stage is about to run with artifacts/code.yaml.

    Raises:
        MismatchError: the file is not there, or is of other code. Nothing is compared for a stage that names no code.
    """
    if stage is None or stage.code_key is None:
        return
    if not Path(CODE).is_file():
        raise MismatchError(f"{CODE} does not exist; run `dvc repro code` before `{stage.command}`")
    if value_at(read_yaml(CODE), stage.code_key) != digest_of(stage, stages=stages):
        first = "run `wsoup init .` and then " if (stages.parent / RECORD).is_file() else "run "
        raise MismatchError(
            f"{CODE} is of other code than stage {stage.name} would run now, so its results would be recorded wrongly;"
            f" {first}`dvc repro {stage.name}`, which runs stage code before it"
        )


def code_files(stage: Stage | None, *, stages: Path) -> dict[Path, object]:
    """The state of each file of a stage's code, for `check_code_unchanged`."""
    if stage is None or stage.code_key is None:
        return {}
    return {file: state_of(file) for file in _files(stage, stages=stages)}


def check_code_unchanged(stage: Stage | None, *, stages: Path, since: Mapping[Path, object]) -> None:
    """Compare the code of a stage at its end with that at its start.

    Raises:
        ChangedError: a file has another meaning now; a comment may be edited.
    """
    edited = [file for file, state in since.items() if state_of(file) != state]
    if stage is None or not edited:
        return
    if value_at(read_yaml(CODE), str(stage.code_key)) != digest_of(stage, stages=stages):
        raise ChangedError(
            f"{edited[0]} changed while {stage.name} ran: its results do not belong to the present code, and DVC does "
            "not record them; run `dvc repro` again"
        )


def check_tree(script: Path) -> None:
    """Raise MismatchError if another wsoup would run than that of the script's tree, which DVC has hashed."""
    import wsoup

    tree = script.parents[1]
    beside = tree / "wsoup"
    used = Path(wsoup.__file__).resolve().parent
    # In a pipeline folder this is a file (`wsoup.pipeline.installed`).
    if beside.is_dir() and beside != used:
        raise MismatchError(
            f"{script} would run {used}, not {beside} beside it; run it from {tree} as "
            f"`python stages {script.stem}` and clear PYTHONPATH"
        )


def check_own_wsoup(command: str) -> None:
    """Raise MismatchError if the working folder has a wsoup of its own, and a command is another one's."""
    beside = Path("wsoup").resolve()
    if beside.is_dir() and beside != code.ROOT / "wsoup":
        raise MismatchError(
            f"this is the wsoup of {code.ROOT}, not the one of {beside.parent}; run `python -m wsoup {command}` there"
        )
