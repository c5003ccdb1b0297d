"""What changed between two runs whose every count is written by hand: signs, pairs, and what is compared with what."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from project import ROOT
from repository import commit, new_repository
from yaml_in_c import safe_load

from wsoup.base.errors import ParamsError
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.right import pack_right
from wsoup.params.reading import read_yaml
from wsoup.report.changes import Change, changes
from wsoup.report.compare import compare
from wsoup.report.edits import changed_params, edited, in_words
from wsoup.report.load import recorded
from wsoup.report.record import Record
from wsoup.report.revisions import WORKSPACE, Revision

N = 400
WHOLE = "word_all_seeds"
CAVEAT = "HEAD holds another machine's figures (DVC has no results of it here); commit a run of your own"
SOUPS = {"old": {"kind": "greedy", "pool": "words"}, "word": {"kind": "chains", "pool": "words"}}


def write_run(
    folder: Path,
    counts: dict[str, dict[int, int]],
    *,
    soup: str = "word",
    members: tuple[str, ...] = ("sharp",),
    images: str = "same",
    dataset: str = "photo",
    k0: int = 4,
    methods: dict[str, str] | None = None,
    head: bool = False,
) -> None:
    """A finished run on one dataset of 400 images: rows of the pretrained encoder, each with its counts by seed.

    `methods` are soups of finetuned methods by name, of which the run is about the first; rows of a method are
    called ``method/row``.
    """
    methods = methods or {}
    (folder / "reports/tables").mkdir(parents=True, exist_ok=True)
    soups = {name: {**definition, "k0": k0} for name, definition in SOUPS.items()}
    finetune = {"methods": {name: {"soup": texts} for name, texts in methods.items()}}
    heads = {"ridge": {"soup": "word"}} if head else {}
    report = {"soup": soup, "method": next(iter(methods), None)}
    params: dict[str, Any] = {"soups": soups, "finetune": finetune, "heads": heads, "report": report}
    record = {"answer": [], "params": params, "soup": soup, "mode": "centroid", "members": list(members), "rows": {}}
    (folder / "reports/verdict.json").write_text(json.dumps(record))
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    where = {"dataset": dataset, "role": "source", "n_images": N, "images": images}
    lines = []
    for key, by_seed in counts.items():
        variant, _, row = key.rpartition("/")
        about = {**where, "variant": variant or PRETRAINED, "row": row}
        lines += [{**about, "seed": seed, "n_correct": n} for seed, n in by_seed.items()]
    with open(folder / "reports/tables/counts.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)


def write_right(folder: Path, row: str, *, right: dict[int, np.ndarray]) -> None:
    """Which images a row gets right with each seed, as stage evaluate keeps them."""
    where = {"method": row, "mode": "centroid", "dataset": "photo", "n_images": N}
    lines = [{**where, "seed": seed, "right": pack_right(hits)} for seed, hits in right.items()]
    store.write_table(folder / f"artifacts/results/{PRETRAINED}/right.parquet", pa.Table.from_pylist(lines))


def change_of(before: Path, after: Path, *, row: str = WHOLE) -> Change:
    key = (PRETRAINED, row)
    (change,) = changes(Revision(WORKSPACE, root=before), Revision(WORKSPACE, root=after), keys=[(key, key)])
    return change


@pytest.mark.parametrize("by_image", [True, False])
def test_a_gain_of_25_points_is_better_and_taken_back_it_is_worse(tmp_path, by_image):
    """200 and 300 of 400 images."""
    few, many = tmp_path / "few", tmp_path / "many"
    for folder, n_correct in ((few, 200), (many, 300)):
        write_run(folder, {WHOLE: {1: n_correct}})
        if by_image:
            write_right(folder, WHOLE, right={1: np.arange(N) < n_correct})
    gain, loss = change_of(few, many), change_of(many, few)
    assert (gain.before, gain.after, gain.verdict.mean, gain.verdict.word) == (50, 75, 25, "better")
    assert (loss.before, loss.after, loss.verdict.mean, loss.verdict.word) == (75, 50, -25, "worse")
    assert gain.by_image is loss.by_image is by_image
    assert gain.interval.endswith("(from counts)") is not by_image


def test_seeds_are_paired_by_their_number_and_only_those_of_both_runs_count(tmp_path):
    """Seed 2 is the second before and the first after; it gains 40 of 400 images."""
    before, after = tmp_path / "before", tmp_path / "after"
    write_run(before, {WHOLE: {1: 0, 2: 200}})
    write_right(before, WHOLE, right={1: np.zeros(N, dtype=bool), 2: np.arange(N) < 200})
    write_run(after, {WHOLE: {2: 240, 3: 400}})
    write_right(after, WHOLE, right={2: np.arange(N) < 240, 3: np.ones(N, dtype=bool)})
    change = change_of(before, after)
    assert (change.before, change.after, change.verdict.mean, change.by_image) == (50, 60, 10, True)


def test_seeds_may_stand_in_any_order_in_the_table_of_counts(tmp_path):
    """Right images are stacked by rising seed."""
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, gain in ((before, 0), (after, 40)):
        write_run(folder, {WHOLE: {2: 200 + gain, 1: 100 + gain}})
        right = {seed: np.arange(N) < n + gain for seed, n in ((1, 100), (2, 200))}
        write_right(folder, WHOLE, right=right)
    change = change_of(before, after)
    assert (change.before, change.after, change.by_image) == (37.5, 47.5, True)
    assert change.verdict.level == pytest.approx(0.05)


def test_a_score_mean_has_a_row_of_its_own(tmp_path):
    """Results name its mode in a column, tables in the row."""
    write_run(tmp_path, {"word_soup": {1: 100}, "word_soup_score_mean": {1: 200}})
    lines = []
    for mode, n_correct in (("centroid", 100), ("score_mean", 200)):
        about = {"method": "word_soup", "mode": mode, "dataset": "photo", "n_images": N, "seed": 1}
        lines.append(about | {"right": pack_right(np.arange(N) < n_correct)})
    store.write_table(tmp_path / f"artifacts/results/{PRETRAINED}/right.parquet", pa.Table.from_pylist(lines))
    right = Revision(WORKSPACE, root=tmp_path).right
    counted = {row: int(of_row["photo"].sum()) for (_, row), of_row in right.items()}
    assert counted == {"word_soup": 100, "word_soup_score_mean": 200}


def test_right_images_that_do_not_fit_the_counts_are_not_paired(tmp_path):
    """An artifact of another run: the counts are what was reported."""
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, n_correct in ((before, 200), (after, 300)):
        write_run(folder, {WHOLE: {1: n_correct}})
        write_right(folder, WHOLE, right={1: np.arange(N) < 200})
    change = change_of(before, after)
    assert (change.verdict.mean, change.by_image) == (25, False)


def test_right_images_of_a_commit_from_before_there_were_checksums_are_paired(tmp_path):
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, n_correct in ((before, 200), (after, 240)):
        write_run(folder, {WHOLE: {1: n_correct}})
        write_right(folder, WHOLE, right={1: np.arange(N) < n_correct})
    path = before / f"artifacts/results/{PRETRAINED}/right.parquet"
    pq.write_table(pq.read_table(path).replace_schema_metadata({"wsoup": "{}"}), path)
    assert change_of(before, after).by_image


@pytest.fixture
def compared(tmp_path):
    """A run that is committed, then one that follows it -> what `wsoup compare` prints of the two, line by line."""

    def lines(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
        new_repository(tmp_path)
        write_run(tmp_path, **before)
        commit(tmp_path, "before")
        write_run(tmp_path, **after)
        return compare(root=tmp_path).splitlines()

    return lines


def test_the_runs_soup_is_compared_with_the_runs_soup_before_whatever_its_name_was(compared):
    """From `old` at 200 to `word` at 300 of 400 images; `word` alone was at 100."""
    shown = compared(
        {"counts": {"old_all_seeds": {1: 200}, WHOLE: {1: 100}}, "soup": "old", "members": ("a", "b")},
        {"counts": {"old_all_seeds": {1: 200}, WHOLE: {1: 300}}, "soup": "word", "members": ("b", "c")},
    )
    (line,) = [line for line in shown if line.startswith("word soup, source")]
    assert line.split()[3:6] == ["50.00", "75.00", "+25.00"]
    assert "members that came (1): c" in shown
    assert "members that went (1): a" in shown
    assert shown[0] == "It helped: word soup better on source by 25.0 points, more than noise."


@pytest.mark.parametrize(
    ("method", "before"), [("coop", {"coop/old_soup": {1: 200}}), (None, {"coop_diverse/word_soup": {1: 200}})]
)
def test_the_runs_method_is_compared_with_the_runs_method_before_if_there_was_one(compared, method, before):
    """From 200 to 300 of 400 images; another row of either name was at 100."""
    others = {"coop/word_soup": {1: 100}, "coop_diverse/old_soup": {1: 100}, WHOLE: {1: 200}}
    now = {"coop_diverse/word_soup": {1: 300}, WHOLE: {1: 200}}
    shown = compared(
        {"counts": before | others, "methods": {method: "old"} if method else {}},
        {"counts": now, "methods": {"coop_diverse": "word"}},
    )
    (line,) = [line for line in shown if line.startswith("coop_diverse, source")]
    assert line.split()[2:5] == ["50.00", "75.00", "+25.00"]


def test_a_row_that_only_one_run_has_is_new_or_gone_and_one_that_neither_has_is_not_shown(compared):
    """k0 feeds the soups `old`, which nobody evaluated, and `word`; `waffle` was there before."""
    shown = compared(
        {"counts": {"waffle": {1: 200, 2: 100}, "gpt_score_mean": {1: 1}}},
        {"counts": {WHOLE: {1: 300}, "cupl": {1: 1}, "word_soup_autoclip": {1: 2}}, "k0": 8},
    )
    table = shown[shown.index(f"{'':<28}{'before':>8}{'after':>8}{'change':>8}   95% interval") + 1 :]
    assert table[:3] == [
        f"{'word soup, source':<28}{'-':>8}{'75.00':>8}{'':>8}   new",
        f"{'CuPL, source':<28}{'-':>8}{'0.25':>8}{'':>8}   new",
        f"{'Waffle, source':<28}{'37.50':>8}{'-':>8}{'':>8}   gone",
    ]
    assert table[-2:] == [
        "other rows that are new (1): pretrained/word_soup_autoclip, source: 0.5",
        "other rows that are gone (1): pretrained/gpt_score_mean, source: 0.2",
    ]
    assert shown[0] == "No row of both runs depends on the edit; new: word soup, CuPL; gone: Waffle."


def test_new_rows_are_shown_beside_the_rows_of_both_runs_however_many_those_are(compared):
    counts = {WHOLE: {1: 200}, "coop/word_soup": {1: 200}, "ridge/word_soup": {1: 200}}
    head = {"methods": {"coop": "word"}, "head": True}
    shown = compared({"counts": counts, **head}, {"counts": counts | {"waffle": {1: 100}}, **head, "k0": 8})
    titles = [line.partition(", source")[0] for line in shown if ", source  " in line]
    assert titles == ["word soup", "coop", "head ridge", "Waffle"]


def test_another_head_is_no_change_of_the_rows_beside_it(compared):
    """In the answer it widens their intervals; between two runs each row is a question of its own."""
    rows = {WHOLE: {1: 200}, "coop/word_soup": {1: 250}}
    method = {"methods": {"coop": "word"}}
    shown = compared(
        {"counts": rows, **method}, {"counts": rows | {"ridge/word_soup": {1: 300}}, **method, "head": True}
    )
    assert shown[0] == "No row of both runs depends on the edit; new: head ridge."
    assert "all other rows: 0 of 2 changed" in shown


def test_a_row_that_is_compared_under_another_name_is_neither_new_nor_gone(compared):
    shown = compared(
        {"counts": {"old_all_seeds": {1: 200}}, "soup": "old"}, {"counts": {WHOLE: {1: 300}}, "soup": "word"}
    )
    assert not [line for line in shown if line.endswith(("new", "gone")) or "other rows" in line]


def test_the_same_rows_are_shown_below_a_caveat(tmp_path):
    """DVC has no results of the commit, and the workspace has no commit."""
    counts = {WHOLE: {1: 200}, "coop/word_soup": {1: 200}, "ridge/word_soup": {1: 200}}
    new_repository(tmp_path)
    write_run(tmp_path, counts, methods={"coop": "word"}, head=True)
    commit(tmp_path, "before")

    def rows(shown: str) -> list[str]:
        return [line.partition(",")[0] for line in shown.splitlines() if ", source  " in line]

    shown = compare(root=tmp_path)
    identical = "The runs are identical as far as counts show: none differs."
    assert shown.splitlines()[:2] == [identical, CAVEAT]
    assert rows(shown) == ["word soup", "coop", "head ridge"]
    alone = compare(WORKSPACE, WORKSPACE, root=tmp_path)
    assert alone.splitlines()[:2] == [identical, "params: the same in both"]
    assert rows(alone) == ["word soup", "coop", "head ridge"]


def test_results_of_which_only_a_part_is_here_are_named(tmp_path):
    """The head's right images are those of both machines; the soup's are not here."""
    new_repository(tmp_path)
    subprocess.run(["dvc", "init", "-q"], cwd=tmp_path, check=True)
    write_run(tmp_path, {WHOLE: {1: 200}, "ridge/word_soup": {1: 100}}, head=True)
    right = np.arange(N)[None] < 100
    line = {"method": "word_soup", "mode": "centroid", "dataset": "photo", "n_images": N, "seed": 1}
    lines = [{**line, "right": pack_right(right[0])}]
    store.write_table(tmp_path / "artifacts/results/heads/ridge.parquet", pa.Table.from_pylist(lines))
    commit(tmp_path, "before")
    shown = compare(root=tmp_path).splitlines()
    assert shown[1] == CAVEAT.replace("no results of it", "of its results only those of ridge")
    (soup,) = [line for line in shown if line.startswith("word soup, source")]
    (head,) = [line for line in shown if line.startswith("head ridge, source")]
    assert soup.endswith("identical (from counts)")
    assert head.endswith("identical")


def test_params_that_were_edited_after_the_run_are_said_before_what_is_of_the_run(tmp_path):
    new_repository(tmp_path)
    write_run(tmp_path, {WHOLE: {1: 200}})
    commit(tmp_path, "before")
    params = safe_load((tmp_path / "params.yaml").read_text())
    params["soups"]["word"]["k0"] = 5
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    assert compare(root=tmp_path).splitlines()[:2] == [
        "params.yaml has changed since (run `dvc repro`): soups.word.k0 4 -> 5",
        "Without that edit: the runs are identical as far as counts show: none differs.",
    ]
    assert "params without that edit: the same in both" in compare(root=tmp_path).splitlines()
    write_run(tmp_path, {WHOLE: {1: 300}}, k0=8)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    shown = compare(root=tmp_path).splitlines()
    assert shown[1] == "Without that edit: it helped: word soup better on source by 25.0 points, more than noise."
    assert "params without that edit: soups.old.k0 4 -> 8, soups.word.k0 4 -> 8" in shown


HEAD_AND_METHOD = {"counts": {WHOLE: {1: 200}, "coop/word_soup": {1: 200}, "ridge/word_soup": {1: 100}}, "head": True}
ALONE = {"counts": {WHOLE: {1: 200}}}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (HEAD_AND_METHOD | {"methods": {"coop": "word"}}, ALONE, "gone: coop, head ridge."),
        (ALONE, {"counts": {WHOLE: {1: 200}, "waffle": {1: 7}}}, "new: Waffle."),
        ({"counts": {WHOLE: {1: 200}, "waffle": {1: 7}}}, ALONE, "gone: Waffle."),
        ({"counts": {WHOLE: {1: 200}, "gpt_score_mean": {1: 7}}}, ALONE, "gone: rows."),
        ({"counts": {WHOLE: {1: 200, 2: 200}}}, ALONE, "gone: seed 2."),
        ({"counts": {WHOLE: {1: 200, 2: 200}}}, {"counts": {WHOLE: {3: 9, 1: 200}}}, "new: seed 3; gone: seed 2."),
        (ALONE, ALONE, None),
    ],
)
def test_runs_of_which_one_has_more_are_not_identical(compared, before, after, said):
    """All that both have is the same."""
    first = compared(before, after)[0]
    if said is None:
        assert first == "The runs are identical as far as counts show: none differs."
    else:
        assert first == f"No row of both runs changed; {said}"


def toy() -> dict[str, Any]:
    """What a record holds of the toy world's params, all of which are read."""
    return recorded(read_yaml(ROOT / "params.yaml"))


@pytest.mark.parametrize(
    ("section", "key", "default", "another"),
    [
        ("encoder", "quick_gelu", None, True),
        ("encoder", "decoding", "upright", "stored"),
        ("landscape", "soup", "word", "descriptor"),
        ("report", "confidence", 0.95, 0.9),
        ("finetune", "momentum", 0.9, 0.8),
    ],
)
def test_a_key_that_says_what_is_meant_without_it_is_no_edit(section, key, default, another):
    without, with_it, edited_key = toy(), toy(), toy()
    without[section].pop(key, None)
    with_it[section][key] = default
    edited_key[section][key] = another
    assert changed_params(without, with_it) == changed_params(with_it, without) == {}
    assert changed_params(without, edited_key) == {f"{section}.{key}": ("-", another)}
    assert changed_params(with_it, edited_key) == {f"{section}.{key}": (default, another)}


def test_a_section_without_anything_is_no_edit_of_its_own():
    """What was in it is named by itself."""
    removed = toy() | {"heads": {}}
    gone = changed_params(toy(), removed)
    assert gone == {"heads.ridge.kind": ("ridge", "-"), "heads.ridge.soup": ("word", "-")}
    assert changed_params({}, {"heads": {}}) == {}


def broken(text: str, *, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("k0: 250", "k0: many", "has changed since and cannot be read: .*soups.word.k0"),
        ("soups:", "suops:", "has changed since and cannot be read: .*soups"),
        ("heads:", "heads: 3\nothers:", "has changed since and cannot be read: .*heads"),
    ],
)
def test_params_that_cannot_be_read_are_no_edit(in_tmp, old, new, said):
    record = Record(answer=[], params=toy(), soup="word", mode="centroid", members=[], rows={})
    Path("params.yaml").write_text(broken((ROOT / "params.yaml").read_text(), old=old, new=new))
    assert re.fullmatch(f"params.yaml {said}.*", " ".join(edited(record, root=in_tmp)))


def test_files_that_are_not_yaml_are_said_before_the_figures(tmp_path):
    new_repository(tmp_path)
    write_run(tmp_path, **ALONE)
    good = (tmp_path / "params.yaml").read_text()
    (tmp_path / "params.yaml").write_text("soups: [\n")
    (tmp_path / "dvc.yaml").write_text("stages: {a: b\nc:\n")
    commit(tmp_path, "broken")
    with pytest.raises(ParamsError, match=r"params.yaml is not YAML in line 2"):
        compare(root=tmp_path)
    (tmp_path / "params.yaml").write_text(good)
    shown = compare(root=tmp_path).splitlines()
    assert shown[0].startswith("Nothing can run: ")
    assert "dvc.yaml is not YAML in line " in f"{shown[0]} {shown[1]}"
    assert any(line.startswith("params.yaml of HEAD is not YAML in line 2") for line in shown)


def test_rows_that_no_edit_feeds_are_named_once_and_only_if_noise_does_not_explain_them(compared):
    """k0 feeds the soups, so they are shown; waffle loses 100 of 400 images, gpt gains one, class_name stays."""
    before = {WHOLE: {1: 200}, "waffle": {1: 300}, "gpt": {1: 200}, "class_name": {1: 200}}
    after = {WHOLE: {1: 220}, "waffle": {1: 200}, "gpt": {1: 201}, "class_name": {1: 200}}
    shown = compared({"counts": before}, {"counts": after, "k0": 8})
    assert "params: soups.old.k0 4 -> 8, soups.word.k0 4 -> 8" in shown
    (others,) = [line for line in shown if line.startswith("all other rows: ")]
    assert others == "all other rows: 2 of 3 changed, by more than noise: pretrained/waffle, source: -25.0"


def test_the_surest_of_other_changes_comes_first(compared):
    """From a half to 65, 90 and 77.5 % of the images; the line has room for one."""
    before = {"a": {1: 200}, "b": {1: 200}, "c": {1: 200}}
    shown = compared({"counts": before}, {"counts": {"a": {1: 260}, "b": {1: 360}, "c": {1: 310}}})
    (others,) = [line for line in shown if line.startswith("all other rows: ")]
    assert others.startswith("all other rows: 3 of 3 changed, by more than noise: pretrained/b, source: +40.0, ")


@pytest.mark.parametrize(
    ("n_correct", "first"),
    [
        (300, "It helped: word soup better on source by 25.0 points, more than noise."),
        (100, "It did not help: word soup worse on source by 25.0 points, more than noise."),
        (203, "It did not clearly help: no change distinguishable from noise."),
    ],
)
def test_the_first_line_says_whether_it_helped(compared, n_correct, first):
    shown = compared({"counts": {WHOLE: {1: 200}}}, {"counts": {WHOLE: {1: n_correct}}, "k0": 8})
    assert shown[0] == first


def test_rows_of_the_same_soup_or_method_in_other_modes_are_counted_by_themselves(compared):
    before = {WHOLE: {1: 200}, "word_soup": {1: 200}, "word_soup_offsets": {1: 200}, "waffle": {1: 200}}
    after = {WHOLE: {1: 203}, "word_soup": {1: 201}, "word_soup_offsets": {1: 200}, "waffle": {1: 200}}
    shown = compared({"counts": before}, {"counts": after, "k0": 8})
    assert "other modes and texts of these: 1 of 2 changed, none by more than noise" in shown
    assert "all other rows: 0 of 1 changed" in shown


def test_datasets_with_other_test_images_are_named_and_not_compared(compared):
    shown = compared({"counts": {WHOLE: {1: 200}}}, {"counts": {WHOLE: {1: 300}}, "images": "others"})
    assert "not compared, because their test images differ: photo" in shown
    assert not [line for line in shown if line.startswith("word soup, source")]
    assert shown[0] == "Nothing to compare: the runs share none of these rows on the same test images."
    assert not [line for line in shown if line.endswith("   new")], "it was there"


def test_a_dataset_of_one_run_alone_has_no_other_images(compared):
    shown = compared({"counts": {WHOLE: {1: 200}}}, {"counts": {WHOLE: {1: 300}}, "dataset": "sketch"})
    assert not [line for line in shown if "test images differ" in line]


def test_a_value_is_shown_whole_up_to_24_characters(compared):
    counts = {"counts": {WHOLE: {1: 200}}}
    shown = compared(counts, counts | {"k0": 24 * "x"})
    assert shown[2] == f"params: soups.old.k0 4 -> {24 * 'x'}, soups.word.k0 4 -> {24 * 'x'}"


POOLS = ["words", "descriptors", "waffle"]


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (POOLS, [*POOLS, "facts"], "key + 'facts'"),
        (POOLS, ["words", "facts", "descriptors"], "key + 'facts' - 'waffle'"),
        ([], [*POOLS], "key + 'words' + 'descriptors' + 'waffle'"),
        (POOLS, ["waffle", 1, 2, 3, 4, 5], "key + 1 + 2 + 3 + 2 more - 'words' - 'descriptors'"),
        ([1, 2, 3], [1], "key [1, 2, 3] -> [1]"),
        (POOLS, ["words", "waffle", "descriptors"], "key ['words', 'descriptor... -> ['words', 'waffle', '..."),
        ([*POOLS, 1], ["words", "descriptors", 1, "waffle"], "key ...ptors', 'waffle', 1] -> ...ptors', 1, 'waffle']"),
        ("-", POOLS, "key - -> ['words', 'descriptor..."),
        ("/data/photographs/of/pets", "/data/photographs/of/cars", "key ...aphs/of/pets -> ...aphs/of/cars"),
    ],
)
def test_what_differs_in_two_long_values_is_shown(was: object, now: object, said: str) -> None:
    assert in_words({"key": (was, now)}) == [said]


def test_every_edited_key_is_named_on_a_line_of_its_own_where_one_line_is_too_short(compared):
    counts = {"counts": {WHOLE: {1: 200}}}
    shown = compared(counts, counts | {"k0": 24 * "x", "methods": {"coop": "word"}})
    start = shown.index("params:")
    assert shown[start + 1 : start + 3] == [f"  soups.old.k0 4 -> {24 * 'x'}", f"  soups.word.k0 4 -> {24 * 'x'}"]
    assert "  finetune.methods.coop.soup - -> word" in shown
    assert not any("{}" in line for line in shown), "what an empty section lacks is named by itself"


def test_a_section_that_no_report_depends_on_is_no_edit(tmp_path):
    write_run(tmp_path, {WHOLE: {1: 200}})
    record = Revision(WORKSPACE, root=tmp_path).record
    params = safe_load((tmp_path / "params.yaml").read_text())
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params | {"embed": {"batch_size": 4}}))
    assert edited(record, root=tmp_path) == []
    params["soups"]["word"]["k0"] = 5
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    assert edited(record, root=tmp_path) == ["params.yaml has changed since (run `dvc repro`): soups.word.k0 4 -> 5"]
