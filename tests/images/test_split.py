"""Features of one split: each row says which image of the manifest it is of."""

from __future__ import annotations

from project import call_stage, miniature_params, write_miniature, write_params

from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.towers.features import read_features


def test_rows_and_labels_are_those_of_the_manifest_without_an_image_that_was_skipped(in_tmp, tiny_encoder_files):
    write_miniature(in_tmp, encoder=tiny_encoder_files)
    params = miniature_params(tiny_encoder_files)
    params["embed"]["on_bad_image"] = "skip"
    write_params(in_tmp, params)
    min(in_tmp.glob("photo/test/*/*.png")).write_bytes(b"broken")
    call_stage("prepare", "photo")
    for stage in (("embed", "photo"), ("embed_train",)):
        call_stage(*stage)
    artifacts = Artifacts()
    manifest = store.read_table(artifacts.manifest("photo"), columns=["path", "label", "split"]).to_pylist()
    seen = {}
    for split in ("train", "test"):
        features = read_features(artifacts.features("photo", split=split))
        seen[split] = features.rows.tolist()
        assert {manifest[row]["split"] for row in features.rows} == {split}
        assert features.labels.tolist() == [manifest[row]["label"] for row in features.rows]
    of_test = [row for row, line in enumerate(manifest) if line["split"] == "test"]
    assert seen["test"] == of_test[1:], "the first cannot be decoded"
    assert seen["test"] != list(range(11))
