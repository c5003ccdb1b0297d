"""Stage candidates with texts that exceed the model's context: it skips and reports them, or the run stops."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from api_world import DESCRIPTORS, NAMES

from stages import candidates, score
from wsoup.base.errors import PoolError
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.search.pools.lists import read_pool
from wsoup.towers.features import ImageFeatures, write_features

LONG = [f"which has {word} " + "very " * 80 + "long" for word in ("one", "two")]


def pools_of(encoder_files: dict[str, str], **changes: str) -> Artifacts:
    """Run stage candidates on pools with two such descriptors and one such word."""
    artifacts = Artifacts()
    Path("words.txt").write_text("\n".join(["time", LONG[0], "people"]))
    Path("descriptors.txt").write_text("\n".join([DESCRIPTORS[0], LONG[0], *DESCRIPTORS[1:], LONG[1]]))
    pools = {
        "pools": ["words", "descriptors"],
        "words": {"path": "words.txt", "count": 3, "period": False},
        "descriptors": {"paths": ["descriptors.txt"], "period": True},
        "watch": "words.txt",
    }
    params = {"source": "photo", "seeds": [1], "encoder": encoder_files, "score": {"shard_size": 9}}
    Path("params.yaml").write_text(yaml.safe_dump({**params, "candidates": {**pools, **changes}}))
    about = {"class_names": NAMES, "template": "a photo of a {}."}
    store.write_table(artifacts.manifest("photo"), pa.table({"path": ["a.png"]}), attributes=about)
    candidates.main(Owner.of(Path(candidates.__file__), name="candidates"))
    return artifacts


def test_skipped_texts_are_in_no_pool_and_reported_in_one_line(in_tmp, tiny_encoder_files, capsys):
    artifacts = pools_of(tiny_encoder_files, on_long_text="skip")
    assert read_pool(artifacts.pool("words")) == ["time", "people"]
    assert read_pool(artifacts.pool("descriptors")) == DESCRIPTORS
    words, descriptors = capsys.readouterr().out.splitlines()
    assert words.startswith("words: 1 of 3 are left out: 'which has one very")
    assert words.endswith("(does not fit)")
    assert descriptors.startswith("descriptors: 2 of 7 are left out: ")


def test_the_run_stops_by_default_and_the_error_names_the_alternative(in_tmp, tiny_encoder, tiny_encoder_files, capsys):
    artifacts = pools_of(tiny_encoder_files)
    assert LONG[1] in read_pool(artifacts.pool("descriptors"))
    assert capsys.readouterr().out == ""
    features = tiny_encoder.encode_texts([f"a photo of a {name}." for name in NAMES]).numpy()
    about = {"class_names": NAMES, "template": "a photo of a {}.", "encoder": tiny_encoder.id}
    made = ImageFeatures(features, pa.array(range(4)).to_numpy(), pa.array(range(4)).to_numpy(), about)
    write_features(artifacts.features("photo", split="train"), made)
    store.write_table(artifacts.split("photo", seed=1), pa.table({"row": range(4)}))
    with pytest.raises(PoolError, match=r"does not fit .*, or set candidates\.on_long_text: skip$"):
        score.main(Owner.of(Path(score.__file__), name="score@descriptors"), "descriptors")


def test_words_with_the_tokens_of_another_are_left_out_and_reported(in_tmp, tiny_encoder_files, capsys):
    Path("words.txt").write_text("time\nTime\npeople\n")
    artifacts = pools_of(tiny_encoder_files, on_long_text="skip")
    Path("words.txt").write_text("time\nTime\npeople\n")
    candidates.main(Owner.of(Path(candidates.__file__), name="candidates"))
    assert read_pool(artifacts.pool("words")) == ["time", "people"]
    assert "words: 1 of 3 are left out: 'Time' (same tokens as 'time')" in capsys.readouterr().out
