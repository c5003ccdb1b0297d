"""One flipped bit in a file that a stage reads: the reader refuses it in one line, or reads what was written."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from project import Project

from wsoup.base.errors import LONGEST, MismatchError, WsoupError
from wsoup.disk import store
from wsoup.finetune.tuned import load_tuned, read_tuned_config, snapshots_in
from wsoup.heads.head import Head
from wsoup.towers.encoder import Encoder
from wsoup.towers.features import open_features, read_features

FLIPS = 10
"""Bits of each file that are flipped, one after the other."""


def table(path: Path, encoder: Encoder) -> object:
    # As text, because NaN is not equal to itself.
    return repr(store.read_table(path).to_pydict()), dict(store.table_attributes(path))


def checked_object(path: Path, encoder: Encoder) -> object:
    return store.read_checked_object(path)


def config(path: Path, encoder: Encoder) -> object:
    return read_tuned_config(path.parent)


def features(path: Path, encoder: Encoder) -> object:
    folder = path
    while folder.suffix != ".zarr":
        folder = folder.parent
    read = read_features(folder, encoder=encoder.id)
    assert np.array_equal(open_features(folder, encoder=encoder.id).features[:], read.features)
    return read.features[:].tobytes(), read.labels.tolist(), read.rows.tolist(), read.attributes


def head(path: Path, encoder: Encoder) -> object:
    read = Head.load(path, encoder=encoder.id)
    arrays = (read.classifier, read.confidences, read.right)
    return [array.numpy().tobytes() for array in arrays], read.temperature, read.setting, read.soup, read.class_names


def tuned(path: Path, encoder: Encoder) -> object:
    iterations: list[int | None] = [None]
    if path.name == "snapshots.safetensors":
        iterations += snapshots_in(path.parent)
    weights = []
    for iteration in iterations:
        model = load_tuned(path.parent, encoder=encoder, iteration=iteration).model
        weights.append([tensor.numpy().tobytes() for tensor in model.state_dict().values()])
    return weights


READERS: dict[str, Callable[[Path, Encoder], object]] = {
    "manifests/*.parquet": table,
    "splits/*/*.parquet": table,
    "scores/*.parquet": table,
    "survey/*.parquet": table,
    "results/*.parquet": table,
    "results/*/*.parquet": table,
    "evaluated.json": checked_object,
    "templates.json": checked_object,
    "memory/*/*.json": checked_object,
    "finetuned/*/*/config.json": config,
    "finetuned/*/*/*.safetensors": tuned,
    "heads/*/*.safetensors": head,
    "embeddings/**/*": features,
}
"""What stages read below artifacts/, and how."""
PLAIN = ("code.yaml", "pools/*.txt", "soups/**/*.json", "finetuned/*/*/log.csv")
"""Files without a checksum, which docs/trust.md names."""


def files_of(artifacts: Path, pattern: str) -> list[Path]:
    return sorted(path for path in artifacts.glob(pattern) if path.is_file())


def flipped(data: bytes, *, draw: random.Random) -> bytes:
    damaged = bytearray(data)
    damaged[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def test_every_artifact_has_a_checksum_or_is_plain_text(first_run: Project) -> None:
    artifacts = first_run.folder / "artifacts"
    named = [path for pattern in (*READERS, *PLAIN) for path in files_of(artifacts, pattern)]
    assert sorted(named) == files_of(artifacts, "**/*"), "each once"


@pytest.mark.parametrize("pattern", READERS)
def test_a_flipped_bit_is_refused_or_changes_nothing(
    first_run: Project, tiny_encoder: Encoder, tmp_path: Path, pattern: str
) -> None:
    artifacts = shutil.copytree(first_run.folder / "artifacts", tmp_path / "artifacts")
    read = READERS[pattern]
    draw = random.Random(0)
    files = files_of(artifacts, pattern)
    refused = 0
    for path in files:
        whole = path.read_bytes()
        expected = read(path, tiny_encoder)
        for _ in range(FLIPS):
            path.write_bytes(flipped(whole, draw=draw))
            try:
                assert read(path, tiny_encoder) == expected, path
            except WsoupError as error:
                refused += 1
                assert_one_line(error)
        path.write_bytes(whole)
    assert refused > len(files) * FLIPS / 3


def assert_one_line(error: WsoupError) -> None:
    assert isinstance(error, MismatchError)
    assert str(error).isprintable()
    assert len(str(error)) <= LONGEST
