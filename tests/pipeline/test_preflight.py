"""Faults of params, pools and manifests are found before any image is read; invalid pools are refused."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from corrupt import corrupted
from project import DESCRIPTORS, ROOT, WORDS, miniature_params

from wsoup.base.errors import LONGEST, WsoupError
from wsoup.cli.app import app
from wsoup.disk.files import Artifacts
from wsoup.disk.store import write_checked_object
from wsoup.pipeline.checks import preflight
from wsoup.pipeline.checks.encoder import long_texts
from wsoup.pipeline.params import parse_params
from wsoup.search.candidates import pools
from wsoup.search.pools import lists


@pytest.fixture
def raw(in_tmp: Path, tiny_encoder_files: dict[str, str]) -> dict[str, Any]:
    """The miniature's params, with its pools in the working folder."""
    (in_tmp / "pools").mkdir()
    (in_tmp / "pools/words.txt").write_text("\n".join(WORDS))
    (in_tmp / "pools/descriptors.txt").write_text("\n".join(DESCRIPTORS))
    return copy.deepcopy(miniature_params(dict(tiny_encoder_files)))


def problems(raw: dict[str, Any]) -> list[str]:
    messages = [str(problem) for problem in preflight.problems(parse_params(raw, origin="params.yaml"))]
    assert all(text.isprintable() and len(text) <= LONGEST for text in messages)
    return messages


def change(raw: dict[str, Any], where: str, value: object) -> None:
    *sections, key = where.split(".")
    section: Any = raw
    for name in sections:
        section = section[name]
    section[key] = value


def test_the_miniature_has_no_problem(raw: dict[str, Any]) -> None:
    assert problems(raw) == []


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("candidates.words.count", 14, "holds 13 words, candidates.words.count asks for 14; lower it"),
        ("candidates.words.path", "pools/none.txt", "pools/none.txt does not exist; correct its path"),
        ("candidates.descriptors.paths", ["pools/none.txt"], "pools/none.txt does not exist; correct its path"),
        ("candidates.descriptors.paths", ["pools/none.json"], "pools/none.json does not exist; correct the path"),
        ("candidates.words", {"path": None, "count": 1_000_000, "period": False}, "is 1000000, but wordfreq has"),
        ("soups.word.pool", "descriptors", "soups.word.k1 is 12 but the pool descriptors holds 5; lower k1"),
        (
            "soups.word",
            {"kind": "sample", "pool": "descriptors", "m": 6, "k1": None},
            "m is 6 but the pool descr",
        ),
        ("soups.descriptor.m", 100, None),
        ("evaluate.baseline_m", 6, "evaluate.baseline_m is 6 but the pool descriptors holds 5; lower it"),
        ("evaluate.tuned_baseline_m", 6, "evaluate.tuned_baseline_m is 6 but the pool descriptors holds 5"),
        ("evaluate.survey.chain_length", 14, "evaluate.survey.chain_length is 14 but the pool words holds 13"),
        ("evaluate.offsets", [0, 70], "evaluate.offsets: 70 null tokens with 'a photo of a {}.' exceed"),
        ("finetune.methods.ce.tune.blocks", 3, "methods.ce.tune.blocks is 3, the smaller tower has 2 blocks; lower it"),
        ("finetune.methods.ce.tune", {"kind": "maple", "tokens": 3, "depth": 3}, "tune.depth is 3, the smaller tower"),
        ("finetune.methods.ce.tune.prompt_tokens", 10, "prompt_tokens is 10, more than 'a photo of a' has"),
        (
            "finetune.methods.ce.tune",
            {"kind": "soft_descriptors", "members": 2, "tokens": 3, "prompt_tokens": 10},
            "prompt_tokens is 10, more than 'a photo of a' has",
        ),
        ("finetune.methods.coop_diverse.tune.tokens", 78, "tokens is 78, more than 'a photo of a' has"),
        (
            "finetune.methods.ce.tune",
            {"kind": "soft_descriptors", "members": 2, "tokens": 77, "prompt_tokens": 0},
            "tune.tokens is 77, which with 'a photo of a {}.' exceeds the model's context of 77 tokens",
        ),
        ("datasets.other.gpt_descriptors", "pools/gpt.json", "pools/gpt.json does not exist; correct the path"),
    ],
)
def test_impossible_settings_are_found(raw: dict[str, Any], where: str, value: object, message: str | None) -> None:
    change(raw, where, value)
    sentences = problems(raw)
    assert (sentences == []) is (message is None)
    assert message is None or message in sentences[0]


@pytest.fixture
def own_encoder(raw: dict[str, Any], in_tmp: Path) -> Path:
    """The model in a folder of the run."""
    shutil.copytree(raw["encoder"]["watch"], in_tmp / "encoder")
    for key in ("config", "pretrained"):
        raw["encoder"][key] = f"encoder/{Path(raw['encoder'][key]).name}"
    raw["encoder"]["watch"] = "encoder"
    return in_tmp / "encoder"


@pytest.mark.parametrize("key", ["config", "pretrained"])
def test_a_missing_model_is_found_unless_dvc_makes_it(
    raw: dict[str, Any], own_encoder: Path, key: str, in_tmp: Path
) -> None:
    assert problems(raw) == []
    Path(raw["encoder"][key]).unlink()
    (message,) = problems(raw)
    assert f"section encoder: {raw['encoder'][key]} does not exist" in message
    (in_tmp / "encoder.dvc").touch()
    assert problems(raw) == []
    (in_tmp / "encoder.dvc").unlink()
    (in_tmp / "encoder/dvc.yaml").write_text(
        "stages:\n  make:\n    outs:\n    - tiny-clip.json\n    - tiny.safetensors\n"
    )
    assert problems(raw) == []


def test_a_missing_list_of_templates_is_found_beside_a_pipeline_and_lists_of_before(
    raw: dict[str, Any], in_tmp: Path
) -> None:
    (in_tmp / "pools/dvc.yaml").write_text("stages:\n  make:\n    outs:\n    - words.txt\n")
    write_checked_object(Artifacts().templates, {"lists": {"other": []}, "datasets": {}})
    raw["evaluate"]["templates"] = {"mine": "pools/none.txt"}
    (message,) = problems(raw)
    assert message.startswith("pools/none.txt does not exist; name a file of templates, or openai80 or openai7")
    write_checked_object(Artifacts().templates, {"lists": {"mine": ["a {}"]}, "datasets": {}})
    assert problems(raw) == []


def test_a_config_out_of_bounds_is_found(raw: dict[str, Any], own_encoder: Path) -> None:
    config = json.loads((own_encoder / "tiny-clip.json").read_text())
    config["text_cfg"]["layers"] = 10**9
    (own_encoder / "tiny-clip.json").write_text(json.dumps(config))
    assert "text_cfg.layers: 1000000000 is not valid" in problems(raw)[0]


def test_truncated_weights_are_found(raw: dict[str, Any], own_encoder: Path) -> None:
    weights = own_encoder / "tiny.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert "they do not belong together, or the file is truncated" in problems(raw)[0]


def test_artifacts_replace_files_that_are_elsewhere(raw: dict[str, Any], in_tmp: Path) -> None:
    for pool, texts in (("words", WORDS), ("descriptors", DESCRIPTORS)):
        (in_tmp / f"pools/{pool}.txt").unlink()
        lists.write_pool(Artifacts().pool(pool), texts)
    assert problems(raw) == []
    change(raw, "evaluate.baseline_m", 6)
    assert "evaluate.baseline_m is 6" in problems(raw)[0]


def test_data_check_names_every_problem(raw: dict[str, Any], in_tmp: Path) -> None:
    from typer.testing import CliRunner

    change(raw, "evaluate.baseline_m", 6)
    change(raw, "soups.word.pool", "descriptors")
    (in_tmp / "params.yaml").write_text(yaml.safe_dump(raw))
    shutil.copy(ROOT / "dvc.yaml", in_tmp)
    done = CliRunner().invoke(app, ["check"])
    assert done.exit_code == 1
    assert "error: soups.word.k1 is 12 but the pool descriptors holds 5" in done.output
    assert "error: evaluate.baseline_m is 6 but the pool descriptors holds 5" in done.output


def test_all_texts_that_are_too_long_are_named(raw: dict[str, Any], in_tmp: Path) -> None:
    long = [f"which has {word} " + "very " * 80 for word in ("one", "two", "three")]
    (in_tmp / "pools/descriptors.txt").write_text("\n".join([*DESCRIPTORS, *long]))
    params = parse_params(raw, origin="params.yaml")
    lines = [*long_texts(params, class_names=["red", "dark green"])]
    for word, line in zip(("one", "two", "three"), lines, strict=True):
        assert line.startswith(f"candidates.descriptors: 'which has {word} very very")
        assert "does not fit the model's context after 'a " in line
        assert "shorten it or leave it out" in line
        assert len(line) <= LONGEST
    change(raw, "candidates.on_long_text", "skip")
    assert [*long_texts(parse_params(raw, origin="params.yaml"), class_names=["red", "dark green"])] == []


def test_texts_are_measured_by_the_local_model_that_open_clip_does_not_know_yet(
    raw: dict[str, Any], in_tmp: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = json.loads(Path(raw["encoder"]["config"]).read_text())
    config["text_cfg"]["context_length"] = 24
    (in_tmp / "models").mkdir()
    (in_tmp / "models/short-context.json").write_text(json.dumps(config))
    files = {"config": "models/short-context.json", "pretrained": "models/weights.safetensors", "watch": "models"}
    raw["encoder"] |= {"model": "short-context", **files}
    (in_tmp / "pools/descriptors.txt").write_text("\n".join([*DESCRIPTORS, "which is " + "very " * 24]))
    (line,) = long_texts(parse_params(raw, origin="params.yaml"), class_names=["red"])
    assert "does not fit the model's context" in line
    assert "configuration not found" not in capfd.readouterr().err


# ------------------------------------------------------------------------------------------- pools and GPT files

GPT = {"sky": ["blue", "which is above"], "soil": ["brown; wet", "made of earth"]}
WRONG_POOLS = [b"", b" \n\t\n", b"a\nb\na\n", "größe\n".encode("latin-1"), "word\n".encode("utf-16"), bytes(range(256))]
WRONG_GPT = [
    *(b"", b"[]", b"null", b"3", b'"x"', b"<!DOCTYPE html>", json.dumps(GPT).encode()[:-9], b'{"sky": "blue"}'),
    *(b'{"sky": [1]}', b'{"sky": [["blue"]]}', b'{"sky": [NaN]}', b'{"sky": ["\\ud800"]}', b'{"\\ud800": ["x"]}'),
    *(b"[" * 100_000, b"9" * 5_000, '{"größe": ["x"]}'.encode("latin-1"), b'{"sky": []}'),
]


def refused(read: Callable[[], object]) -> str | None:
    """The error for a file; None if it is read."""
    try:
        read()
    except WsoupError as error:
        text = str(error)
        assert text.isprintable()
        assert len(text) <= 2 * LONGEST
        return text
    return None


@pytest.mark.parametrize(
    ("name", "data"),
    [*(("x.txt", data) for data in WRONG_POOLS), *(("x.json", data) for data in WRONG_GPT)],
)
def test_an_invalid_pool_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    file = tmp_path / name
    file.write_bytes(data)
    assert name in str(refused(lambda: pools.descriptors([file])))
    if name == "x.txt":
        assert name in str(refused(lambda: pools.words_from_file(file, count=3)))
        # An artifact may be empty, if there are no descriptors.
        assert not data.strip() or name in str(refused(lambda: lists.read_pool(file)))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
@pytest.mark.parametrize("name", ["x.txt", "x.json"])
def test_pools_that_are_not_files_are_refused(tmp_path: Path, make: Callable[[Path], None], name: str) -> None:
    make(tmp_path / name)
    assert name in str(refused(lambda: pools.descriptors([tmp_path / name])))


@pytest.mark.parametrize("name", ["x.txt", "x.json"])
def test_a_damaged_pool_is_refused_or_can_be_written_and_read_again(tmp_path: Path, name: str) -> None:
    data = json.dumps(GPT).encode() if name.endswith("json") else "\n".join(DESCRIPTORS).encode()
    path, copy_of = tmp_path / name, tmp_path / "x.pool"
    for seed in range(20):
        path.write_bytes(corrupted(data, seed=seed))
        if refused(lambda: pools.descriptors([path])) is None:
            texts = pools.descriptors([path])
            lists.write_pool(copy_of, texts)
            assert lists.read_pool(copy_of) == texts
