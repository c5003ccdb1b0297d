"""A digest cache for each test."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the digests of a test in its own folder."""
    monkeypatch.setenv("WSOUP_CACHE", str(tmp_path / ".cache"))
