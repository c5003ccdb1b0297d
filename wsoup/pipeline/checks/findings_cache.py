"""Findings that take seconds, kept from one `wsoup check` to the next.

Importing torch and open_clip takes four of its five seconds, to look at a model that an edit of params.yaml rarely
concerns. What is wrong is looked at again each time: it may be mended outside of all that a key can hold.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from wsoup.base.errors import MismatchError, MissingError
from wsoup.disk import cache_folder, code, store
from wsoup.disk.checked import read_checked, write_checked
from wsoup.pipeline.checks.downloads import downloaded
from wsoup.pipeline.checks.finding import Finding
from wsoup.pipeline.params import Params

OPTIONAL = ("timm", "transformers", "dvc")
"""Packages that some models or checks need, and that are not in every installation."""


def cached_findings(name: str, *, inputs: object, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """The findings of `look`, or those of last time if nothing that they depend on has changed since.

    Args:
        name: of the file in the cache folder, which holds only the last look.
        inputs: what the findings depend on but code and packages, as a JSON value.
        look: gives the findings.
    """
    file = cache_folder.cache_dir() / "check" / f"{name}.checked"
    key = store.fingerprint([inputs, *_looked_with()])
    with suppress(MissingError, MismatchError):
        kept = json.loads(read_checked(file))
        if kept["key"] == key:
            return [Finding(*finding) for finding in kept["findings"]]
    findings = list(look())
    if not any(finding.kind == "error" for finding in findings):
        # A folder that cannot be written to costs time, and is not a fault of the params.
        with suppress(OSError):
            cache_folder.make_cache_dir()
            code.keep_parsed()
            write_checked(file, json.dumps({"key": key, "findings": findings}).encode())
    return findings


@cache
def _looked_with() -> tuple[str, dict[str, str]]:
    """What looks: a digest of this wsoup, and versions of packages."""
    return code.digest(code.library()), code.installed() | {package: _version(package) for package in OPTIONAL}


def digest_of(file: str | Path) -> str | None:
    """What a file holds, for a key; None if it is not there."""
    return store.sha256_file(file) if Path(file).is_file() else None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def encoder_inputs(params: Params) -> list[object]:
    """What determines the findings about the model, as JSON values. Of weights only whether they are here matters."""
    config = params.encoder.config
    digest = None
    if config is not None:
        digest = digest_of(config)
    section = params.encoder.model_dump(mode="json")
    return [section, digest, bool(params.finetune.methods), downloaded()]
