"""Stage score: its table, and that an interrupted run ends with the same bytes."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
import yaml
from yaml_in_c import safe_load

from stages import score as stage
from wsoup.base.errors import MismatchError
from wsoup.core.class_texts import normalize
from wsoup.core.scoring import Scores
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.params.section import load
from wsoup.search.candidates.pools import common_words
from wsoup.search.pools.lists import write_pool
from wsoup.search.rank import statistics
from wsoup.search.rank.meter import Meter
from wsoup.search.rank.ranking import read_ranked
from wsoup.search.rank.source import load_source
from wsoup.towers.features import ImageFeatures, read_features, write_features
from wsoup.towers.run import Run

NAMES = ["red cat", "blue dog", "green bird", "fish", "tree"]
WORDS = common_words(30)


class Killed(BaseException):
    """Ends the process in this test."""


@pytest.fixture
def artifacts(in_tmp, tiny_encoder, tiny_encoder_files) -> Artifacts:
    """Everything that stage score reads, with 60 images and two seeds."""
    artifacts, generator = Artifacts(), torch.Generator().manual_seed(0)
    params = {"source": "photo", "seeds": [1, 2], "encoder": tiny_encoder_files}
    pools = {"words": {"path": None, "count": 30, "period": False}, "descriptors": {"paths": [], "period": True}}
    params["candidates"] = {"pools": [*pools], **pools, "watch": "params.yaml"}
    params["score"] = {"shard_size": 7}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    write_pool(artifacts.pool("words"), WORDS)
    about = {"class_names": NAMES, "template": "a photo of a {}.", "encoder": tiny_encoder.id}
    features = normalize(torch.randn(60, 16, generator=generator)).numpy()
    rows = np.arange(60)
    write_features(artifacts.features("photo", split="train"), ImageFeatures(features, rows % 5, rows, about))
    for seed, chosen in ((1, rows[:40]), (2, rows[20:])):
        store.write_table(artifacts.split("photo", seed=seed), pa.table({"row": chosen}))
    return artifacts


def owner() -> Owner:
    return Owner.of(Path(stage.__file__), name="score@words")


def run() -> None:
    stage.main(owner(), "words")


def test_the_table_has_every_candidate_for_every_seed(artifacts, tiny_encoder):
    run()
    table = store.read_table(artifacts.scores("words")).to_pylist()
    for seed in (1, 2):
        lines = {line["text"]: line for line in table if line["seed"] == seed}
        assert list(lines) == ["", *WORDS]
        assert {line["n_images"] for line in lines.values()} == {40}
        best = read_ranked(artifacts.scores("words"), seed=seed, encoder_id=tiny_encoder.id)
        assert best.texts == sorted(WORDS, key=lambda text: -lines[text]["n_correct"])
        assert best.n_correct.tolist() == [lines[text]["n_correct"] for text in best.texts]
        assert best.cost.texts == 30


def test_pools_that_no_soup_reads_k2_of_have_none(artifacts):
    """The same scores otherwise; what is kept of a run with k2 is not taken for that of a run without."""
    run()
    with_k2 = store.read_table(artifacts.scores("words"))
    params = safe_load(Path("params.yaml").read_text())
    params["score"]["likelihood"] = ["descriptors"]
    Path("params.yaml").write_text(yaml.safe_dump(params))
    run()
    without = store.read_table(artifacts.scores("words"))
    assert np.isfinite(with_k2["k2"]).all()
    assert np.isnan(without["k2"]).all()
    others = [name for name in with_k2.column_names if name != "k2"]
    unlike = [name for name in others if not without[name].equals(with_k2[name])]
    assert unlike == [], "wsoup/search/rank/statistics.py: only k2 may differ without a likelihood"


@pytest.mark.parametrize("first", [True, False])
def test_texts_and_class_name_have_the_final_period_only_if_the_pool_says_so(artifacts, tiny_encoder, first):
    """Both, one after the other: what is kept of a run is not taken for the other's."""
    params = safe_load(Path("params.yaml").read_text())
    right_by_name = []
    for period in (first, not first):
        params["candidates"]["words"]["period"] = period
        Path("params.yaml").write_text(yaml.safe_dump(params))
        run()
        source = load_source(Run.of(owner(), load(stage.Wanted)))
        (name_alone,) = source.text_blocks([""], period=period)
        table = store.read_table(artifacts.scores("words")).to_pylist()
        for seed in (1, 2):
            lines = {line["text"]: line for line in table if line["seed"] == seed}
            counts = Meter(source, seed=seed, period=period).count(["", *WORDS]).tolist()
            assert [lines[text]["n_correct"] for text in ("", *WORDS)] == counts
            features, labels = source.images_of(seed)
            before = Scores(features, name_alone).right(labels)[0]
            right_by_name.append(before.tolist())
            (block,) = source.text_blocks(WORDS, period=period)
            for word, after in zip(WORDS, Scores(features, block).right(labels), strict=True):
                gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
                variance = gained + lost - (gained - lost) ** 2 / 40
                assert lines[word]["gain_se"] == pytest.approx(variance**0.5, abs=1e-9)
        assert read_ranked(artifacts.scores("words"), seed=1, encoder_id=tiny_encoder.id).period is period
    assert right_by_name[:2] != right_by_name[2:], "the period decides which images the class name gets right"


def test_a_split_with_images_that_are_not_embedded_is_refused(artifacts, tiny_encoder):
    """Unless that many were skipped, because they could not be decoded."""
    path, rows = artifacts.features("photo", split="train"), np.arange(60)
    store.write_table(artifacts.split("photo", seed=1), pa.table({"row": [*rows[:40], 97, 98]}))
    with pytest.raises(MismatchError, match=r"names images that .* lacks; run `dvc repro`"):
        run()
    known = read_features(path, encoder=tiny_encoder.id)
    for skipped, ok in ((["a"], False), (["a", "b"], True)):
        about = {**known.attributes, "skipped": skipped}
        write_features(path, ImageFeatures(known.features, known.labels, known.rows, about))
        with contextlib.nullcontext() if ok else pytest.raises(MismatchError):
            run()


@pytest.mark.parametrize("after", [1, 3])
def test_a_killed_run_resumes_and_ends_with_the_same_bytes(artifacts, monkeypatch, capsys, after):
    run()
    undisturbed = artifacts.scores("words").read_bytes()
    scores, left = statistics.scores, after

    def ends(*args, **kwargs):
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        return scores(*args, **kwargs)

    shutil.rmtree(owner().folder)
    artifacts.scores("words").unlink()
    monkeypatch.setattr(statistics, "scores", ends)
    with pytest.raises(Killed):
        run()
    calls = 0

    def counted(*args, **kwargs):
        nonlocal calls
        calls += 1
        return scores(*args, **kwargs)

    monkeypatch.setattr(statistics, "scores", counted)
    run()
    assert artifacts.scores("words").read_bytes() == undisturbed
    shards = len(list(owner().folder.rglob("*.part")))
    assert calls == shards - after, "what was finished is not done again"
