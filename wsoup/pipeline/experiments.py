"""Runs of an edited params.yaml beside the folder, which stays as it is: experiments of DVC, found again by name.

A run that was interrupted goes on: DVC's run cache has its finished stages, and finished shards of the others lie in a
part of the cache folder that all such runs share.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wsoup.base.errors import MismatchError, MissingError
from wsoup.base.number_of import number_of
from wsoup.disk import code
from wsoup.disk.cache_folder import cache_dir
from wsoup.disk.store import fingerprint
from wsoup.pipeline.planning.plan import duration
from wsoup.report.revisions import Revision
from wsoup.runtime import fork_server
from wsoup.runtime.git import git


class Experiment(NamedTuple):
    """A run of an edited params.yaml.

    Attributes:
        name: of the experiment; see `named`.
        about: what it is, in a few words.
        edits: as `dvc exp run --set-param` takes them.
        hours: about how long it takes.
    """

    name: str
    about: str
    edits: Sequence[str]
    hours: float


def named(what: str, *, params: Mapping[str, Any]) -> str:
    """The name of an experiment, with a digest of params.yaml and of what all code means.

    So the run of other params or of other code is never taken for it.
    """
    digest = fingerprint([params, code.digests(Path("stages").resolve())])
    return f"{what}-{digest[:8]}"


def finished(name: str) -> Revision:
    """A finished experiment; MissingError where there is none."""
    return Revision(name, root=Path())


def _has_ended(name: str) -> bool:
    try:
        return bool(finished(name).record.rows)
    except MissingError:
        return False


def run_missing(experiments: Sequence[Experiment]) -> None:
    """Run those that are not finished, one after the other, after saying how long that takes.

    Raises:
        MismatchError: there is no git repository with a commit, or a run failed.
    """
    missing = [experiment for experiment in experiments if not _has_ended(experiment.name)]
    if not missing:
        return
    if git("rev-parse", "--verify", "--quiet", "HEAD", folder=Path()) is None:
        raise MismatchError(
            f"{Path.cwd()} is not in a git repository with a commit, which DVC's experiments need: git init && "
            "git add -A && git commit -m begin"
        )
    listed = ", ".join(experiment.about for experiment in missing)
    together = duration(sum(experiment.hours for experiment in missing))
    n_runs = number_of(len(missing), "run")
    print(
        f"{n_runs} to come ({listed}): at most {together} on this machine, to a factor of two (`wsoup plan` "
        "estimates a run)",
        file=sys.stderr,
    )
    environment = {**os.environ, **fork_server.start(), "WSOUP_CACHE": str(_shared_cache())}
    for experiment in missing:
        # --temp leaves the working folder alone and shares DVC's cache.
        command = ["exp", "run", "--temp", "--name", experiment.name]
        for edit in experiment.edits:
            command += ["--set-param", edit]
        if _dvc(command, environment=environment):
            raise MismatchError(f"the run of {experiment.about} failed; the next call goes on from there")


def _shared_cache() -> Path:
    """What the runs have as WSOUP_CACHE: the user's, or else a part of the cache folder here."""
    given = os.environ.get("WSOUP_CACHE")
    return Path(given or cache_dir() / "experiments").resolve()


def _dvc(arguments: Sequence[str], *, environment: Mapping[str, str]) -> int:
    """Exit code of DVC. An interrupt is handed on to DVC and its stages, and their end is waited for."""
    # A session of its own: DVC ignores interrupts while a stage runs, so both must get the one that is handed on.
    process = subprocess.Popen([sys.executable, "-m", "dvc", *arguments], env=environment, start_new_session=True)
    try:
        return process.wait()
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
        raise
