"""Stage soup with variants of one search: soups that differ only in what follows the search share it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
import torch
import yaml
from api_world import NAMES, SMALL, WORDS, photos

from stages import score, soup
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner
from wsoup.search.grow import soups
from wsoup.search.rank.pools import write_pool

VARIANTS = {
    "word": {"kind": "chains", "pool": "words", **SMALL},
    "heavy": {"kind": "chains", "pool": "words", **SMALL, "class_name_weight": 2},
    "longer": {"kind": "chains", "pool": "words", **SMALL, "m": 5},
    "lengths": {"kind": "random_lengths", "pool": "words", **SMALL},
}


def owner(stage, item: str) -> Owner:
    return Owner.of(Path(stage.__file__), name=f"{Path(stage.__file__).stem}@{item}")


@pytest.fixture
def scored(in_tmp, tiny_encoder, tiny_encoder_files) -> Artifacts:
    """A scored pool of words and few-shot images of one seed, in the working folder."""
    images, artifacts = photos(tiny_encoder), Artifacts()
    params = {
        "source": "photo",
        "seeds": [3],
        "encoder": tiny_encoder_files,
        "candidates": {
            "words": {"path": None, "count": len(WORDS), "period": False},
            "descriptors": {"paths": [], "period": True},
            "watch": "pools",
        },
        "score": {"shard_size": 500},
    }
    Path("params.yaml").write_text(yaml.safe_dump({**params, "soups": VARIANTS}))
    write_pool(artifacts.pool("words"), WORDS)
    about = {"class_names": NAMES, "template": "a photo of a {}.", "encoder": tiny_encoder.id}
    rows = torch.arange(len(images.labels)).numpy()
    features = store.ImageFeatures(images.features.numpy(), images.labels.numpy(), rows, about)
    store.write_features(artifacts.features("photo", split="train"), features)
    store.write_table(artifacts.split("photo", seed=3), pa.table({"row": rows}))
    score.main(owner(score, "words"), "words")
    return artifacts


def made(artifacts: Artifacts, defined: dict[str, dict]) -> dict[str, bytes]:
    """The soup files of these definitions."""
    params = yaml.safe_load(Path("params.yaml").read_text())
    Path("params.yaml").write_text(yaml.safe_dump({**params, "soups": defined}, sort_keys=False))
    for name in defined:
        soup.main(owner(soup, name), name)
        shutil.rmtree(owner(soup, name).folder)  # as a stage does when its outs are in place
    return {name: artifacts.soup(name, seed=3).read_bytes() for name in defined}


def test_variants_share_a_search_and_are_the_same_as_alone(scored, monkeypatch):
    alone: dict[str, bytes] = {}
    for name, definition in VARIANTS.items():
        alone |= made(scored, {name: definition})
    grown, grow = [], soups.word_soup_member
    monkeypatch.setattr(soups, "word_soup_member", lambda *a, **kw: grown.append(kw["member"]) or grow(*a, **kw))
    assert made(scored, VARIANTS) == alone
    assert grown == [0, 1, 2, 3, 4], "each chain of the longest soup once"
    assert not [*Path(".cache/wsoup").glob("soup@*")], "the last variant removes the shared state"


def test_a_search_is_not_shared_after_the_ranking_changed(scored, monkeypatch):
    made(scored, VARIANTS)
    table = store.read_table(scored.scores("words"))
    attributes = store.table_attributes(scored.scores("words"))
    turned = table.set_column(
        table.column_names.index("n_correct"), "n_correct", pa.array(table["n_correct"].to_pylist()[::-1])
    )
    store.write_table(scored.scores("words"), turned, attributes=attributes)
    grown, grow = [], soups.word_soup_member
    monkeypatch.setattr(soups, "word_soup_member", lambda *a, **kw: grown.append(kw["member"]) or grow(*a, **kw))
    shared = made(scored, VARIANTS)
    assert len(grown) == 5
    assert made(scored, {"heavy": VARIANTS["heavy"]})["heavy"] == shared["heavy"]


def test_soups_whose_searches_differ_do_not_share():
    from pydantic import TypeAdapter

    def key(**definition: object) -> object:
        return soups.shared_search(TypeAdapter(soups.SoupParams).validate_python(definition))

    word = VARIANTS["word"]
    assert len({str(key(**definition)) for definition in VARIANTS.values()}) == 1
    assert all(key(**{**word, name: word[name] - 1}) != key(**word) for name in ("k0", "patience", "max_words", "k1"))
    assert key(**{**word, "kind": "joint"}) is None, "it judges chains together with the weighted class name"
    assert key(kind="greedy", pool="words", m=3) is None
