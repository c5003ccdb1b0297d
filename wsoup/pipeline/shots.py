"""The paper's figure over shots: an experiment of DVC for each number of few-shot images, and what each reports."""

import subprocess
from pathlib import Path

from wsoup.base.errors import MismatchError, MissingError
from wsoup.disk.store import fingerprint
from wsoup.params.section import read_yaml
from wsoup.report.compare import Revision
from wsoup.report.results import ROLES
from wsoup.report.run import Record

SHOTS = (1, 2, 4, 8, 16)
"""The paper's numbers; those above ``fewshot.shots`` of params.yaml are left out."""


def over_shots(root: Path = Path()) -> str:
    """Run what params.yaml says with each number of shots that no experiment has yet; every row of all, as CSV.

    The runs are `dvc exp run --temp`: they leave the working folder alone and share DVC's cache. Their names end in a
    digest of params.yaml, so that those that ended are found again and none replaces another.

    Raises:
        MismatchError: a run failed.
    """
    params = dict(read_yaml(root / "params.yaml"))
    lines = [f"shots,variant,row,{','.join(ROLES)}"]
    for n in (n for n in SHOTS if n <= params["fewshot"]["shots"]):
        name = f"shots-{n}-{fingerprint(params)[:8]}"
        record = _ended(name, root=root)
        if record is None:
            command = ["dvc", "exp", "run", "--temp", "--name", name, "-S", f"fewshot.shots={n}"]
            if subprocess.run(command, cwd=root, check=False).returncode:
                raise MismatchError(f"the run with {n} shots failed, see above; the next call goes on from there")
            record = Revision(name, root=root).record
        for variant, rows in record.rows.items():
            for row, places in rows.items():
                lines.append(f"{n},{variant},{row},{','.join(str(places.get(role, '')) for role in ROLES)}")
    return "\n".join(lines)


def _ended(name: str, *, root: Path) -> Record | None:
    """The record of an experiment; None if there is none."""
    try:
        return Revision(name, root=root).record
    except MissingError:
        return None
