"""`wsoup shots`: the same run with fewer few-shot images, the paper's figure of accuracy over shots."""

import os
import subprocess
import sys
from pathlib import Path

from wsoup.base.errors import MismatchError, MissingError
from wsoup.cli.common import require_pipeline_folder

SHOTS = (1, 2, 4, 8, 16)
"""The numbers of few-shot images in the paper's figure; those above ``fewshot.shots`` of params.yaml are left out."""
WHATEVER_SHOTS = ("prepare", "embed", "candidates", "evaluated")
"""Stages that do not depend on the number of shots, or hardly: their results are found in DVC's cache."""


def shots_command() -> None:
    """Run params.yaml with 1, 2, 4, 8 and 16 shots, and print every row of all runs as CSV: the paper's figure.

    Each run is an experiment of DVC beside the folder, which stays as it is. Runs that ended are found again.

    Example: wsoup shots > shots.csv
    """
    require_pipeline_folder()
    from wsoup.disk.store import fingerprint
    from wsoup.params.reading import read_yaml
    from wsoup.runtime import fork_server

    params = dict(read_yaml("params.yaml"))
    numbers = [n for n in SHOTS if n <= params["fewshot"]["shots"]]
    # Names have a digest of params.yaml, so that no run replaces one of other params.
    names = {n: f"shots-{n}-{fingerprint(params)[:8]}" for n in numbers}
    missing = [n for n in numbers if not _has_ended(names[n])]
    environment = {**os.environ}
    if missing:
        _say_how_long(missing)
        environment |= fork_server.start()
    for n in missing:
        # --temp leaves the working folder alone and shares DVC's cache.
        command = ["dvc", "exp", "run", "--temp", "--name", names[n], "-S", f"fewshot.shots={n}"]
        if subprocess.run(command, env=environment, check=False).returncode:
            raise MismatchError(f"the run with {n} shots failed; the next call goes on from there")
    print(_over_shots(names))


def _has_ended(name: str) -> bool:
    from wsoup.report.revisions import Revision

    try:
        return bool(Revision(name, root=Path()).record.rows)
    except MissingError:
        return False


def _say_how_long(numbers: list[int]) -> None:
    """Print which runs are to come, and an estimate of their time."""
    from wsoup.pipeline.planning.plan import duration, plan

    stages, _ = plan()
    hours = 0.0
    for name, each in stages.items():
        stage, _, _ = name.partition("@")
        if stage not in WHATEVER_SHOTS:
            hours += each.hours
    listed = ", ".join(map(str, numbers))
    together = duration(len(numbers) * hours)
    print(
        f"{len(numbers)} runs to come, with {listed} shots: at most {together} on this machine, to a factor "
        "of two (`wsoup plan` estimates a run)",
        file=sys.stderr,
    )


def _over_shots(names: dict[int, str]) -> str:
    """Every row of the experiments, by their numbers of shots, as CSV."""
    from wsoup.report.results import ROLES
    from wsoup.report.revisions import Revision

    lines = [f"shots,variant,row,{','.join(ROLES)}"]
    for n, name in names.items():
        for variant, rows in Revision(name, root=Path()).record.rows.items():
            for row, places in rows.items():
                cells = [str(places.get(role, "")) for role in ROLES]
                lines.append(",".join([str(n), variant, row, *cells]))
    return "\n".join(lines)
