"""A command imports what it uses; each fact in its own process."""

from __future__ import annotations

import subprocess
import sys

import pytest
from project import ROOT

HEAVY = (
    "torch",
    "open_clip",
    "torchvision",
    "zarr",
    "pyarrow",
    "numpy",
    "pydantic",
    "ruamel",
    "dvc",
    "huggingface_hub",
)
LOADED = f"""
print(*sorted({{name.partition(".")[0] for name in sys.modules}} & {{*{HEAVY}}}))
"""


def loaded(code: str) -> list[str]:
    """Which of `HEAVY` some code loads."""
    command = [sys.executable, "-c", f"import sys\n{code}\n{LOADED}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize("module", ["wsoup", "wsoup.cli.app"])
def test_nothing_heavy_is_loaded_before_a_command_is_known(module: str):
    assert loaded(f"import {module}") == []


def test_help_loads_nothing_heavy():
    assert loaded("import wsoup.cli.app\ntry: wsoup.cli.app.app(['--help'])\nexcept SystemExit: pass") == []


def test_what_was_downloaded_is_known_without_a_connection():
    code = "from wsoup.pipeline.checks.downloads import downloaded\ndownloaded()"
    code += "\nassert not {'httpx', 'httpx2', 'huggingface_hub.file_download'} & {*sys.modules}"
    assert "huggingface_hub" in loaded(code)
