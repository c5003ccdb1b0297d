"""The authors' pools by count and digest, and what `wsoup check` says about them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from reference import REFERENCE, needs_reference
from run_cli import run
from yaml_in_c import safe_load

from wsoup.base.errors import PoolError
from wsoup.paper import coverage
from wsoup.paper.settings import Settings
from wsoup.pipeline.params import parse_params
from wsoup.pipeline.profiles.paper import Paper
from wsoup.search.pools.lists import waffle_texts


def sections(raw: dict[str, Any], *, origin: str) -> dict[str, Any]:
    return parse_params(raw, origin=origin).model_dump(mode="json", by_alias=True)


def of_profile(folder: Path, *, words: str) -> list[tuple[bool, str]]:
    raw = safe_load(Paper("/data", gpt_descriptors=str(folder), words=words).text())
    return coverage.pools_of_params(sections(raw, origin="paper"))


def test_for_another_list_the_source_of_theirs_is_named(tmp_path):
    (tmp_path / "words.txt").write_text("".join(f"w{i}\n" for i in range(1200)))
    [(same, says)] = of_profile(tmp_path, words=str(tmp_path / "words.txt"))
    assert not same
    assert says.startswith(
        "candidates.words: 1,200 texts, not the authors' 9,894; rows that depend on them are marked."
    )
    assert "google-10000-english-no-swears.txt of github.com/first20hours/google-10000-english" in says


def test_wordfreqs_words_are_not_theirs_and_missing_files_are_not_judged():
    raw = safe_load(Paper("/data").text())
    [(same, says)] = coverage.pools_of_params(sections(raw, origin="paper"))
    assert (same, says[:50]) == (False, "candidates.words: 10,000 texts, not the authors' 9")
    assert of_profile(Path("/none"), words="/none/words.txt") == []


def test_a_run_on_other_datasets_is_not_compared():
    assert coverage.pools_of_params(sections(safe_load(Path("params.yaml").read_text()), origin="toy")) == []


def test_photos_of_your_own_called_like_a_dataset_of_the_paper_are_not_compared():
    """A name such as food101 says nothing: the paper's datasets have CoOp's layout."""
    raw = safe_load(Path("params.yaml").read_text())
    raw["datasets"] = {"food101": raw["datasets"][raw["source"]]}
    raw["source"] = "food101"
    assert coverage.pools_of_params(sections(raw, origin="own")) == []


def test_a_pool_of_two_files_of_which_one_is_missing_is_not_known(tmp_path):
    (tmp_path / "a.txt").write_text("which is red\n")
    words = {"path": None, "count": 10}
    here = {"words": words, "descriptors": {"paths": [str(tmp_path / "a.txt")]}}
    assert coverage.known(here)["descriptors"]["count"] == 1
    missing = {"words": words, "descriptors": {"paths": [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]}}
    assert coverage.known(missing) == {"words": {"count": 10}}


@needs_reference
def test_the_authors_list_of_waffles_texts():
    texts = waffle_texts(REFERENCE / "waffle_descriptors.txt")
    assert texts[0] == ", which has hatch injuri"
    assert coverage.facts(texts) == {"count": 512, "digest": Settings.of_paper().differs["waffle"]["unless"]["waffle"]}


@needs_reference
def test_theirs_are_recognised_in_any_order(tmp_path):
    words = (REFERENCE / "words.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "words.txt").write_text("\n".join(sorted(words)))
    (tmp_path / "descriptors_imagenet.json").write_bytes(
        (REFERENCE / "gpt_descriptors/descriptors_imagenet.json").read_bytes()
    )
    assert of_profile(tmp_path, words=str(tmp_path / "words.txt")) == [
        (True, "candidates.descriptors: the authors' 4,227"),
        (True, "candidates.words: the authors' 9,894"),
    ]


@pytest.mark.parametrize("legacy", [False, True])
def test_the_authors_file_of_torch_is_refused_with_the_command_that_converts_it(legacy, in_tmp) -> None:
    """It is never unpickled here, and the command loads data alone."""
    texts = [" , which has hatch injuri.", ", which is 5BQVW."]
    torch.save(texts, "theirs.list", _use_new_zipfile_serialization=not legacy)
    with pytest.raises(PoolError, match=r"theirs\.list was saved by torch or pickle; a text file") as refused:
        waffle_texts("theirs.list")
    folders = ["--data-root", "/data", "--gpt-descriptors", "none"]
    code, printed, errors = run("profile", "paper", *folders, "--waffle", "theirs.list")
    assert (code, printed, errors) == (1, "", f"error: {refused.value}\n")
    command = str(refused.value).partition("Convert it: ")[2]
    subprocess.run(command.replace("python", sys.executable, 1), shell=True, check=True)
    assert waffle_texts("waffle.txt") == [", which has hatch injuri", ", which is 5BQVW"]
    code, printed, errors = run("profile", "paper", *folders, "--waffle", "waffle.txt")
    assert code == 0, errors
    assert "waffle: waffle.txt" in printed
