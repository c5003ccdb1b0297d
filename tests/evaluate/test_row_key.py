"""What a row is called, and the file that it is counted in."""

from pathlib import Path

from wsoup.evaluate.row_key import file_of_head, file_of_method, files_of_counts, files_of_right

RESULTS = Path("results")


def test_each_variant_has_one_file_and_the_pretrained_model_one_more_for_right_images():
    trained = {"coop": RESULTS / "coop.parquet", "ridge": RESULTS / "heads/ridge.parquet"}
    counts = files_of_counts(RESULTS, methods=["coop"], heads=["ridge"])
    right = files_of_right(RESULTS, methods=["coop"], heads=["ridge"])
    assert counts == {"pretrained": RESULTS / "pretrained/results.parquet", **trained}
    assert right == {"pretrained": RESULTS / "pretrained/right.parquet", **trained}
    assert (file_of_method(RESULTS, "coop"), file_of_head(RESULTS, "ridge")) == tuple(trained.values())
