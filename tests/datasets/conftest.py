"""What all dataset tests share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests of a test stay with the test."""
    monkeypatch.setenv("WSOUP_CACHE", str(tmp_path / ".cache"))
