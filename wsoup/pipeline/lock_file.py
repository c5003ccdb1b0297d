"""dvc.lock as DVC reads it: a kill while DVC rewrites it, or a merge, may leave one that DVC refuses."""

from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from wsoup.base.errors import WsoupError, one_line
from wsoup.disk.files import read_text

LOCK = Path("dvc.lock")


def damaged() -> str | None:
    """A sentence about dvc.lock if DVC cannot read it, with the next step; None without the file or without DVC."""
    if not LOCK.exists():
        return None
    try:
        from dvc.schema import COMPILED_LOCKFILE_SCHEMA as SCHEMA
        from voluptuous import Invalid
    except ImportError:
        return None
    try:
        # Some cuts leave YAML, so DVC's own schema is asked, too.
        SCHEMA(YAML(typ="safe").load(read_text(LOCK)))
    except (WsoupError, YAMLError, ValueError, RecursionError, Invalid) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f"line {mark.line + 1}: "
        why = one_line(getattr(error, "problem", error), limit=200)
        step = "`git checkout dvc.lock` or remove it, then `dvc repro` takes finished stages from DVC's cache"
        return f"DVC cannot read {LOCK} ({where}{why}), perhaps cut by a kill: {step}"
    return None
