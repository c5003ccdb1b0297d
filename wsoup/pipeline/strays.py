"""Results of names that params.yaml no longer has, in folders that stages depend on as a whole.

A fresh clone lacks them, so with them DVC would call other stages out of date there. Only what dvc.lock records as the
result of a stage, and whose bytes DVC's cache still holds, is removed; everything else is left, and no stage reads it:
stages list the names of params.yaml.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from wsoup.pipeline.inputs import files_of, md5, outs_of_all

LOCK = Path("dvc.lock")


def remove_strays() -> None:
    """Remove them, with a line for each, and a line for each that DVC's cache does not hold."""
    text = LOCK.read_text(encoding="utf-8", errors="replace") if LOCK.is_file() else ""
    lines = set(re.findall(r"^    - path: (artifacts/.+)$", text, re.MULTILINE))  # parsing it all takes a second
    current = outs_of_all()
    folders = {str(parent) for out in current for parent in Path(out).parents}
    strays = [Path(line) for line in sorted(lines - current - folders) if Path(line).exists()]
    if not strays:
        return
    locked = yaml.safe_load(text)["stages"].values()
    recorded = {out["path"]: str(out.get("md5")) for stage in locked for out in stage.get("outs", ())}
    asked = subprocess.run(["dvc", "cache", "dir"], capture_output=True, text=True, check=False)
    cache = Path(asked.stdout.strip(), "files", "md5")
    for path in strays:
        what = f"{path}: params.yaml no longer names it"
        if _is_held(path, digest=recorded.get(str(path), ""), cache=cache):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            print(f"removed {what} (DVC's cache still has it)", file=sys.stderr)
        else:
            print(f"left {what}, and DVC's cache does not hold it; move it out of artifacts/", file=sys.stderr)


def _is_held(path: Path, *, digest: str, cache: Path) -> bool:
    """Whether a file or folder is as dvc.lock records it, and DVC's cache holds every file of it."""

    def place(md5_in_hex: str) -> Path:
        return cache / md5_in_hex[:2] / md5_in_hex[2:]

    expected: Mapping[str, str] = {str(path): digest}
    if digest.endswith(".dir"):
        if not place(digest).is_file():
            return False
        listed = json.loads(place(digest).read_bytes())
        expected = {str(path / entry["relpath"]): entry["md5"] for entry in listed}
    actual = {str(file): md5(file) for file in files_of(path)}
    return actual == expected and all(place(each).is_file() for each in expected.values())
