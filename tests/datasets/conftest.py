"""Miniature datasets on disk, drawn in code."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image


@pytest.fixture
def draw() -> Callable[..., Path]:
    """draw(path): a small PNG or JPEG whose colour depends on its name alone."""

    def write(path: Path, *, size: int = 8) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        shade = zlib.crc32(path.name.encode())
        Image.new("RGB", (size, size), (shade & 255, shade >> 8 & 255, shade >> 16 & 255)).save(path)
        return path

    return write


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests of a test stay with the test."""
    monkeypatch.setenv("WSOUP_CACHE", str(tmp_path / ".cache"))
