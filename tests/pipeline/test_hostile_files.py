"""Damaged, swapped or foreign files of wsoup's own, and odd folders, params and caches."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from corrupt import corrupted
from hostile_stages import Stage
from hostile_stages import run as run_stage
from PIL import Image
from project import ROOT, Project
from run_cli import run
from yaml_in_c import safe_load

from wsoup.base.errors import LONGEST, DataError, MismatchError, MissingError, WsoupError
from wsoup.disk import cache_folder, store
from wsoup.params.reading import read_yaml
from wsoup.pipeline.checks.missing_keys import missing_keys
from wsoup.pipeline.folder import create
from wsoup.pipeline.status import reasons
from wsoup.report.lines import Line, read_lines
from wsoup.report.record import Record, as_written


def one_line_of(error: BaseException) -> str:
    text = str(error)
    assert text.isprintable()
    assert len(text) <= LONGEST
    return text


# ------------------------------------------------------------------------------------------------------- results

LINE = {
    "method": "class_name",
    "variant": "pretrained",
    "mode": "centroid",
    "m": 1,
    "offsets": 1,
    "texts": 1.0,
    "stored": 2,
}
LINE |= {"seed": 1, "dataset": "dtd", "role": "xd", "n_correct": 3, "n_images": 4, "alignment": 0.3, "uniformity": 0.2}


def written_and_read(path: Path, lines: list[dict[str, Any]]) -> list[Line]:
    store.write_table(path, pa.Table.from_pylist(lines))
    return read_lines(path, variant="pretrained", datasets=["dtd"])


def test_results_are_read_as_written(tmp_path: Path) -> None:
    (line,) = written_and_read(tmp_path / "x.parquet", [LINE])
    assert line.metrics == {}
    assert {**line.model_dump(exclude={"text", "metrics"}), "role": "xd"} == LINE
    assert written_and_read(tmp_path / "x.parquet", [{**LINE, "m": None, "stored": None}])[0].m is None


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("variant", "ce", "no count of 'pretrained' on a dataset of params.yaml"),
        ("dataset", "food", "no count of 'pretrained' on a dataset of params.yaml"),
        ("n_correct", 5, "no count of 'pretrained'"),
        ("n_correct", -1, "entry 1: n_correct: "),
        ("n_images", 0, "entry 1: n_images: "),
        ("offsets", 0, "entry 1: offsets: "),
        *(
            (column, None, f"entry 1: {column}: None is not valid")
            for column in ("variant", "dataset", "seed", "alignment")
        ),
        *((column, "x", f"entry 1: {column}: ") for column in ("n_correct", "m", "seed", "stored", "texts")),
        *((column, 1.5, f"entry 1: {column}: ") for column in ("n_correct", "seed", "method", "offsets")),
    ],
)
def test_results_of_another_kind_are_refused(tmp_path: Path, column: str, value: Any, message: str) -> None:
    with pytest.raises(MismatchError, match=r"x\.parquet is not as its stage wrote it") as error:
        written_and_read(tmp_path / "x.parquet", [{**LINE, column: value}])
    assert message in one_line_of(error.value)


def test_results_without_a_column_or_lines_or_with_a_line_twice_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    for column in set(LINE) - {"role"}:
        with pytest.raises(MismatchError, match="is not as its stage wrote it"):
            written_and_read(file, [{key: value for key, value in LINE.items() if key != column}])
    with pytest.raises(MismatchError, match=r"twice there: .*class_name"):
        written_and_read(file, [LINE, LINE])
    store.write_table(file, pa.Table.from_pylist([LINE]).slice(0, 0), attributes={})
    with pytest.raises(MismatchError, match="a list of 1 or more"):
        read_lines(file, variant="pretrained", datasets=["dtd"])


@pytest.mark.parametrize("data", [b"[]", b"null", b"{", b"\xff", b"3", b"[" * 20_000, b"{}"])
def test_invalid_attributes_are_refused(tmp_path: Path, data: bytes) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1]}).replace_schema_metadata({b"wsoup": data}), tmp_path / "x.parquet")
    with pytest.raises(MismatchError, match=r"x\.parquet") as error:
        store.table_attributes(tmp_path / "x.parquet")["datasets"]
    one_line_of(error.value)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    store.write_table(tmp_path / "x.parquet", pa.table({"x": [1]}))
    with pytest.raises(MismatchError, match=r"x\.parquet cannot be read as Parquet \(No match for .*y"):
        store.read_table(tmp_path / "x.parquet", columns=["x", "y"])


@pytest.mark.parametrize(
    "fault", [KeyError("m"), TypeError("x\ny"), ZeroDivisionError(), RecursionError("x" * 9_000), AssertionError()]
)
def test_any_error_from_a_damaged_file_is_one_line(fault: Exception) -> None:
    message = r"a file in artifacts/ or reports/ is not as its stage wrote it"
    with pytest.raises(MismatchError, match=message) as error, as_written():
        raise fault
    assert type(fault).__name__ in one_line_of(error.value)
    with pytest.raises(MissingError, match="gone"), as_written():
        raise MissingError("gone")


# -------------------------------------------------------------------------------- params and dvc.yaml of others


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 20_000, '{"answer": 1}', '{"answer": ["x"]}'])
def test_a_record_that_is_not_as_written_is_one_line(text: str) -> None:
    with pytest.raises(MismatchError, match=r"verdict.json of HEAD was not written by stage `report` of this version"):
        Record.parse(text, origin="reports/verdict.json of HEAD")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((make, "expected a file") for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path))),
        (lambda path: os.close(os.open(path, os.O_CREAT)) or os.truncate(path, 1 << 40), "has 1,099,511,627,776 bytes"),
    ],
)
def test_a_params_file_that_is_no_file_or_too_large_is_refused(tmp_path: Path, make: Any, message: str) -> None:
    make(tmp_path / "params.yaml")
    with pytest.raises(DataError, match=message):
        read_yaml(tmp_path / "params.yaml")


def dvc_folder() -> None:
    """Set up DVC in the working folder, without git."""
    Path(".dvc").mkdir()
    Path(".dvc/config").write_text("[core]\n    no_scm = true\n    analytics = false\n")


DVC_YAML = [
    *(b"", b"[]", b"null", b"x: [", b"\xff\xfe", b"[" * 20_000, b"a: 2001-13-45", b"stages: 3", b"stages: []"),
    *(b"stages: {a: 3}", b"stages: {a: {cmd: x, deps: 3}}", b"stages: {a: {foreach: 3, do: {cmd: x}}}"),
    *(b'stages: {a: {foreach: "${x.y}", do: {cmd: x}}}', b"stages: {a: {cmd: [x], params: [{1: 2}], outs: [null]}}"),
]


def test_an_invalid_dvc_yaml_is_refused(in_tmp: Path) -> None:
    dvc_folder()
    shutil.copy(ROOT / "params.yaml", "params.yaml")
    for data in DVC_YAML:
        Path("dvc.yaml").write_bytes(data)
        with pytest.raises(MismatchError, match=r"DVC cannot read dvc\.yaml") as error:
            reasons()
        assert one_line_of(error.value)
        with contextlib.suppress(WsoupError):
            assert list(missing_keys()) == [], "`wsoup check` leaves it to DVC"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink(path, path)])
def test_a_dvc_yaml_that_is_not_a_file_is_refused(in_tmp: Path, make: Callable[[str], None]) -> None:
    shutil.copy(ROOT / "params.yaml", "params.yaml")
    make("dvc.yaml")
    for command in ("cache", "plan"):
        code, _, errors = run(command)
        assert code == 1
        assert errors.startswith("error: ")


# -------------------------------------------------------------------------------------------------------- folders


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"files": []}', "[" * 20_000])
def test_an_invalid_record_of_init_is_refused(tmp_path: Path, text: str) -> None:
    create(tmp_path / "soups")
    (tmp_path / "soups/wsoup").write_text(text)
    before = (tmp_path / "soups/dvc.yaml").read_bytes()
    (tmp_path / "soups/dvc.yaml").write_bytes(before + b"# mine\n")
    with pytest.raises(WsoupError, match=r"soups/wsoup is not what `wsoup init` wrote") as error:
        create(tmp_path / "soups")
    one_line_of(error.value)
    assert (tmp_path / "soups/dvc.yaml").read_bytes() == before + b"# mine\n"


@pytest.mark.parametrize("name", ["file", "file/x", "fifo", "loop", "mine", "x" * 300, "/proc/x", "/dev/null"])
def test_a_folder_that_init_cannot_make_is_refused(in_tmp: Path, name: str) -> None:
    Path("file").write_text("mine")
    os.mkfifo("fifo")
    os.symlink("loop", "loop")
    Path("mine").mkdir()
    Path("mine/a").write_text("mine")
    code, _, errors = run("init", name)
    assert code == 1
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert Path("file").read_text() == Path("mine/a").read_text() == "mine"


NAMES = [
    *("null", "true", "1", "1e3", "0x1", "2001-01-01", "$(touch ran)", "a: b", "#x", "[x]", "{y}", '"q', "é", "-x"),
    *(" s ", "!!python", "*a", "&a", "~", "%x", "@x", "`x", "${item}"),
]


def test_profile_own_takes_folders_of_any_name(in_tmp: Path) -> None:
    for name in NAMES:
        for split in ("train", "test"):
            for number, kind in enumerate("ab"):
                place = Path(name) / split / kind
                place.mkdir(parents=True)
                Image.new("RGB", (4, 4), (90 * number, 9, len(split))).save(place / "1.png")
        code, printed, errors = run("profile", "own", "--images", f"./{name}")
        assert code == 0, errors
        (section,) = safe_load(printed)["datasets"].values()
        assert section["watch"] == str(in_tmp / name)
        assert not Path("ran").exists()
        for options in (("--test-fraction", "0"), ("--classes", "none.txt"), ("--classes", "."), ("--pretrained", "")):
            code, printed, errors = run("profile", "own", "--images", f"./{name}", *options)
            assert (code, printed) == (1, "")
            assert errors.count("\n") == 1


# ---------------------------------------------------------------------------------------------------------- cache


def test_the_cache_is_listed_whatever_it_holds(in_tmp: Path) -> None:
    dvc_folder()
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, name)
    shutil.copytree(ROOT / "stages", "stages")
    parts = Path(".cache/wsoup/score@words") / ("a" * 20)
    parts.mkdir(parents=True)
    (parts / f"{'b' * 20}.part").write_text("x")
    os.mkfifo(parts / f"{'c' * 20}.part")
    locks = parts.parents[1] / "locks"
    locks.mkdir()
    (locks / "score@words.pid").write_bytes(b"\xff")
    for name in ("[red]", "a\nb"):
        (parts.parents[1] / name / "x").mkdir(parents=True)
    os.symlink("/dev/zero", parts.parents[1] / "zero")
    cache_folder.make_cache_dir()
    assert run("cache")[0] == 0
    assert run("cache", "--prune")[0] == 0
    assert not parts.exists()


def test_git_ignores_half_written_files(tmp_path: Path) -> None:
    """A killed stage leaves them beside its outs until the next stage starts."""
    shutil.copy(ROOT / ".gitignore", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    path = tmp_path / "reports/tables" / ".x.md.0123456789ab.tmp"
    path.parent.mkdir(parents=True)
    path.touch()
    done = subprocess.run(
        ["git", "status", "--short", "-uall"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "?? .gitignore\n"


# --------------------------------------------------------------------------- a whole run, file after file (slow)


@pytest.fixture(scope="module")
def whole(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run to spoil; each test restores it."""
    ignored = shutil.ignore_patterns(".git", ".cache")
    return Path(shutil.copytree(project.folder, tmp_path_factory.mktemp("spoiled") / "run", ignore=ignored))


READ_BY: dict[str, list[Stage]] = {
    "manifests/photo.parquet": [("fewshot",), ("embed_train",), ("embed", "photo")],
    "splits/photo/seed1.parquet": [("score", "words"), ("finetune", "ce")],
    "pools/words.txt": [("score", "words")],
    "evaluated.json": [("evaluate",)],
    "embeddings/pretrained/photo-train.zarr/image_features/c/0/0": [("score", "words")],
    "embeddings/pretrained/photo-train.zarr/zarr.json": [("score", "words")],
    "embeddings/pretrained/other-test.zarr/labels/zarr.json": [("evaluate",)],
    "scores/words.parquet": [("soup", "word")],
    "soups/word/seed1.json": [("evaluate",), ("finetune", "coop_diverse")],
    "finetuned/ce/seed1/config.json": [("evaluate_tuned", "ce")],
    "finetuned/ce/seed1/weights.safetensors": [("evaluate_tuned", "ce")],
    "results/heads/ridge.parquet": [("report",)],
    "results/ce.parquet": [("report",)],
    "results/pretrained/results.parquet": [("report",)],
    "results/pretrained/right.parquet": [("report",)],
    "survey/chains.parquet": [("report",)],
}
SPOILED: dict[str, Callable[[bytes, bytes], bytes]] = {
    "empty": lambda data, other: b"",
    "cut": lambda data, other: corrupted(data, seed=0),
    "bytes": lambda data, other: corrupted(data, seed=7),
    "list": lambda data, other: b"[]",
    "other": lambda data, other: other,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPOILED)
@pytest.mark.parametrize("name", READ_BY)
def test_a_stage_refuses_a_spoiled_file_in_one_line(whole: Path, name: str, kind: str) -> None:
    file = whole / "artifacts" / name
    data, other = file.read_bytes(), (whole / "artifacts/splits/photo/seed2.parquet").read_bytes()
    kept = shutil.copytree(whole / "artifacts", whole / "kept")
    try:
        for stage in READ_BY[name]:
            file.write_bytes(SPOILED[kind](data, other))
            code, lines = run_stage(whole, stage)
            assert code in (0, 1)
            assert not any("Traceback" in line for line in lines), lines
            assert sum(line.startswith("error: ") for line in lines) == code, lines
    finally:
        shutil.rmtree(whole / "artifacts")
        kept.rename(whole / "artifacts")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "other"), [("other-test", "dim-test"), ("photo-test", "dim-test")])
def test_features_of_another_dataset_are_refused(whole: Path, name: str, other: str) -> None:
    features = whole / "artifacts/embeddings/pretrained"
    shutil.move(features / f"{name}.zarr", whole / "aside")
    shutil.copytree(features / f"{other}.zarr", features / f"{name}.zarr")
    try:
        code, lines = run_stage(whole, ("evaluate",))
        assert code == 1, lines
        assert lines[-1].startswith("error: ")
    finally:
        shutil.rmtree(features / f"{name}.zarr")
        shutil.move(whole / "aside", features / f"{name}.zarr")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_commands_on_a_spoiled_run_end_in_one_line(whole: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(whole)
    monkeypatch.delenv("WSOUP_CACHE", raising=False)
    files = [*Path("artifacts/results").rglob("*.parquet"), *Path("reports/plots").glob("*.json")]
    files += [*Path("artifacts/soups").rglob("*.json"), *Path("artifacts/manifests").glob("*.parquet")]
    draw = np.random.default_rng(seed)
    for file in sorted(files):
        good = file.read_bytes()
        file.write_bytes(corrupted(good, seed=int(draw.integers(10_000))))
        for command in (("results",), ("report", "--out", "page.html")):
            code, _, errors = run(*command)
            assert code in (0, 1)
            assert sum(line.startswith("error: ") for line in errors.splitlines()) == code
        file.write_bytes(good)
