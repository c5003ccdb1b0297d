"""Revisions of a small git repository, compared by hand, and errors."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pytest
from repository import commit, git, new_repository
from run_cli import run

from wsoup.base.errors import MissingError
from wsoup.disk import store
from wsoup.evaluate.bits import pack_right, unpack_right
from wsoup.report.compare import COUNTS, compare, params_changes, resolve

HEAD = "variant,row,dataset,role,seed,n_correct,n_images,images\n"


def write(folder, *, k0: int, counts: dict[tuple[str, str, int], int], source: float, size: int = 100) -> None:
    lines = [
        f"pretrained,word_soup,{name},{role},{seed},{n},{size},of-{name}-{size}"
        for (name, role, seed), n in counts.items()
    ]
    (folder / "reports/tables").mkdir(parents=True, exist_ok=True)
    (folder / "reports/tables/counts.csv").write_text(HEAD + "\n".join(lines) + "\n")
    metrics = {"pretrained": {"word_soup": {"source": source, "source_std": 0.5, "xd_mean": 2.0, "xd_std": 0.1}}}
    (folder / "reports/metrics.json").write_text(json.dumps(metrics))
    (folder / "params.yaml").write_text(f"word_soup: {{k0: {k0}, m: 8}}\nseeds: [1, 2]\n")


@pytest.fixture
def repository(tmp_path):
    new_repository(tmp_path)
    before = {("dtd", "xd", 1): 40, ("dtd", "xd", 2): 42, ("sun", "xd", 1): 60, ("sun", "xd", 2): 60}
    write(tmp_path, k0=250, counts=before, source=50.0)
    commit(tmp_path, "first")
    git(tmp_path, "tag", "first")
    after = {key: value + 2 for key, value in before.items()}
    write(tmp_path, k0=100, counts={**after, ("new", "dg", 1): 5}, source=51.0)
    commit(tmp_path, "second")
    git(tmp_path, "update-ref", "refs/exps/ab/" + "c" * 38 + "/fast-moth", "HEAD")
    return tmp_path


def test_control_characters_in_params_are_escaped(repository, monkeypatch):
    monkeypatch.chdir(repository)
    (repository / "params.yaml").write_text('template: "a {}\\e]0;title\\a"\nseeds: [1, 2]\n')
    code, printed, _ = run("compare", "HEAD", "--row", "all")
    assert code == 0
    assert "a {}\\x1b]0;title\\x07" in printed
    assert printed.replace("\n", "").isprintable()


def test_params_that_were_changed_added_or_removed():
    changes = params_changes("a: {b: 1, c: [1]}\nd: x", "a: {b: 2, c: [1]}\ne: null")
    assert changes == [("a.b", "1", "2"), ("d", "x", "-"), ("e", "-", "null")]


def test_accuracies_are_paired_by_dataset_and_seed(repository):
    params, accuracies = compare("first", "HEAD", root=repository)
    assert params.rows == [{"key": "word_soup.k0", "first": "250", "HEAD": "100"}]
    rows = {row["dataset"]: row for row in accuracies.rows}
    assert set(rows) == {"dtd", "sun", "XD mean"}  # only one revision has the others
    assert (rows["XD mean"]["before"], rows["XD mean"]["after"]) == (50.5, 52.5)
    assert rows["dtd"]["change"] == 2.0
    assert rows["dtd"]["low"] < -10 < 14 < rows["dtd"]["high"]  # two images of a hundred, for each seed
    assert rows["dtd"]["low"] < rows["XD mean"]["low"] < 0
    assert rows["dtd"]["from"] == "counts"
    assert "the true one is shorter" in accuracies.notes[1]


def test_a_dataset_with_other_images_is_not_compared(repository):
    write(repository, k0=1, counts={("dtd", "xd", 1): 50, ("dtd", "xd", 2): 40}, source=1.0, size=90)
    _, accuracies = compare("first", root=repository)
    assert accuracies.rows == []
    note = "dtd is not compared: it has 100 images in the first and {} in the second, and they are not the same ones."
    assert note.format(90) in accuracies.notes
    counts = repository / "reports/tables/counts.csv"
    counts.write_text(counts.read_text().replace(",90,of-dtd-90", ",100,others"))
    assert note.format(100) in compare("first", root=repository)[1].notes


def test_unchanged_rows_are_only_counted(repository):
    _, accuracies = compare("HEAD", "fast-moth", root=repository)
    assert accuracies.rows == []
    assert accuracies.notes[-1] == "1 of 1 rows are the same in both."


def test_the_workspace_is_a_revision_too(repository):
    write(repository, k0=1, counts={("dtd", "xd", 1): 50, ("dtd", "xd", 2): 40}, source=1.0)
    _, accuracies = compare("first", root=repository)
    dtd = accuracies.rows[0]
    assert (dtd["before"], dtd["after"], dtd["change"]) == (41.0, 45.0, 4.0)


def test_unknown_revisions_files_and_params_are_named(repository):
    with pytest.raises(MissingError, match="'nowhere' is no revision and no experiment here"):
        resolve("nowhere", root=repository)
    git(repository, "rm", "-q", "-r", "reports")
    commit(repository, "third")
    with pytest.raises(MissingError, match=r"reports/tables/counts.csv is not in revision HEAD; commit reports/"):
        compare("first", "HEAD", root=repository)


def test_changed_images_are_read_from_the_dvc_cache(project, tmp_path):
    """With the word soup, one more image is right in the workspace; the commit's images are in the cache."""
    folder = project.copy(tmp_path / "copy").folder
    right = folder / "artifacts/results/pretrained/right.parquet"
    table = store.read_table(right)
    lines = table.to_pylist()
    counts = list(csv.DictReader(io.StringIO((folder / COUNTS).read_text())))
    for line in lines:
        if (line["method"], line["mode"], line["dataset"]) == ("word_soup", "centroid", "other"):
            bits = unpack_right(line["right"], n_images=line["n_images"])
            bits[bits.argmin()] = True
            line["right"] = pack_right(bits)
            key = ("pretrained", "word_soup", "other", str(line["seed"]))
            count = next(c for c in counts if (c["variant"], c["row"], c["dataset"], c["seed"]) == key)
            count["n_correct"] = int(bits.sum())
    store.write_table(right, pa.Table.from_pylist(lines, schema=table.schema))
    write_counts(folder, counts)
    rows = compare("HEAD", root=folder)[1].rows
    assert {(row["row"], row["from"]) for row in rows} == {("word_soup", "images")}
    changes = {row["dataset"]: row["change"] for row in rows}
    assert changes["photo"] == 0
    assert changes["other"] == pytest.approx(100 / bits.size)
    for count in counts:
        count["n_correct"] = 1 if count["row"] == "word_soup" else count["n_correct"]
    write_counts(folder, counts)  # counts that do not fit the images are of another run
    assert {row["from"] for row in compare("HEAD", root=folder)[1].rows} == {"counts"}


def write_counts(folder, counts) -> None:
    with open(folder / COUNTS, "w", newline="") as file:
        writer = csv.DictWriter(file, list(counts[0]))
        writer.writeheader()
        writer.writerows(counts)
