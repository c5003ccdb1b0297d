"""What would end a run after hours is said by `wsoup check`, or where a run begins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from project import call_stage, miniature_params, write_miniature, write_params
from small_world import COLOURS

from wsoup.base.errors import DataError, ParamsError, PoolError
from wsoup.base.templates import oddity
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.evaluate.rows import CUPL, GPT, Material, Row
from wsoup.evaluate.testsets import load_tests
from wsoup.pipeline.checks import datasets as check_datasets
from wsoup.pipeline.checks import preflight
from wsoup.pipeline.params import load_params
from wsoup.search.candidates import gpt, pools

SENTENCES = {
    name: [f"A {name} thing is seen against the sky.", f"The {name}, U.S. made  is 3.5 m long!"] for name in COLOURS
}
AS_THEY_ARE = {name: [texts[0], f"The {name}, U.S. made is 3.5 m long!"] for name, texts in SENTENCES.items()}


@pytest.fixture
def world(in_tmp: Path, tiny_encoder_files: dict[str, str], monkeypatch) -> Callable[..., list[str]]:
    """Writes gpt.json and keys of dataset `photo`; returns the findings about it that are not facts."""
    monkeypatch.setenv("WSOUP_DEVICE", "cpu")
    write_miniature(in_tmp, encoder=tiny_encoder_files)

    def checked(texts: object = None, **keys: Any) -> list[str]:
        params = miniature_params(tiny_encoder_files)
        if texts is not None:
            Path("pools/gpt.json").write_text(json.dumps(texts))
            keys["gpt_descriptors"] = "pools/gpt.json"
        params["datasets"]["photo"] |= keys
        write_params(in_tmp, params)
        findings = check_datasets.dataset("photo", params=load_params(), deep=False)
        return [finding.text for finding in findings if finding.kind != "fact"]

    return checked


def test_a_gpt_text_that_is_too_long_is_named_by_check_with_its_file(world) -> None:
    texts = {name: ["bright", "a word " * 60] for name in COLOURS}
    (line,) = world(texts)
    assert line.startswith("pools/gpt.json: 4 texts do not fit the model's context, such as 'a photo of a ")
    assert line.endswith("of class 'blue'; shorten them")
    assert world({name: ["bright"] for name in COLOURS}) == []


@pytest.mark.parametrize("wording", ["text", "code", None])
def test_descriptors_are_no_sentences(world, wording: str | None) -> None:
    assert world({name: ["a tail", "Long ears", "used in war."] for name in COLOURS}, gpt_wording=wording) == []


def test_sentences_are_recognised_and_named(world) -> None:
    (line,) = world(SENTENCES)
    assert line.startswith(
        "pools/gpt.json holds whole sentences, as CuPL's files do, and not descriptors: 'A red thing"
    )
    assert "set datasets.<name>.gpt_wording: sentences" in line
    problems = [str(problem) for problem in preflight.problems(load_params())]
    assert len(problems) == 1
    with pytest.raises(PoolError, match="holds whole sentences"):
        call_stage("prepare", "photo")
    with pytest.raises(PoolError, match=r"under candidates name another file"):
        pools.descriptors(["pools/gpt.json"])


def test_sentences_go_through_the_stage_as_they_are(world, tiny_encoder) -> None:
    assert world(SENTENCES, gpt_wording="sentences", baseline_template="a drawing of a {}.") == []
    for dataset in ("photo", "other", "dim"):
        call_stage("prepare", dataset)
        call_stage("embed", dataset)
    call_stage("evaluated")
    (photo,) = [each for each in store.read_checked_object("artifacts/evaluated.json")["datasets"] if each["gpt"]]
    assert photo["gpt"] == AS_THEY_ARE
    tests = load_tests(Artifacts(), encoder=tiny_encoder)
    prompts = GPT.prompts(Material((1,)), next(test for test in tests if test.name == "photo"))
    assert prompts == [AS_THEY_ARE[name] for name in sorted(COLOURS)]


def test_sentences_have_a_row_of_their_own_beside_gpt_descriptors(world, tiny_encoder) -> None:
    Path("pools/cupl.json").write_text(json.dumps(SENTENCES))
    described = {name: ["bright"] for name in COLOURS}
    assert world(described, sentences="pools/cupl.json") == []
    assert list(preflight.problems(load_params())) == []
    for dataset in ("photo", "other", "dim"):
        call_stage("prepare", dataset)
        call_stage("embed", dataset)
    call_stage("evaluated")
    (photo, *others) = load_tests(Artifacts(), encoder=tiny_encoder)
    assert CUPL.prompts(Material((1,)), photo) == [AS_THEY_ARE[name] for name in sorted(COLOURS)]
    assert GPT.prompts(Material((1,)), photo)[0] == ["a photo of a blue, which has bright."]
    assert [CUPL.prompts(Material((1,)), other) for other in others] == [[], []]


def test_a_sentence_that_is_too_long_is_named_with_its_file(world) -> None:
    Path("pools/cupl.json").write_text(json.dumps({name: ["It is bright.", "word " * 80] for name in COLOURS}))
    (line,) = world(sentences="pools/cupl.json")
    assert line.startswith("pools/cupl.json: 4 texts do not fit the model's context, such as 'word word ")


def test_a_file_of_sentences_must_be_there_and_watched(world) -> None:
    (line,) = world(sentences="pools/none.json")
    assert line == "pools/none.json does not exist; correct the path of this dataset's texts in params.yaml"
    (problem,) = preflight.problems(load_params())
    assert "pools/none.json" in str(problem)
    with pytest.raises(ParamsError, match=r"'cupl.json' \(datasets.photo.sentences\)"):
        world(sentences="cupl.json")


def test_a_class_without_sentences_has_its_prompt(in_tmp: Path) -> None:
    Path("d.json").write_text(json.dumps({"cat": ["It purrs."], "dog": []}))
    assert gpt.read_descriptors("d.json", wording="sentences") == {"cat": ["It purrs."], "dog": []}
    assert gpt.read_descriptors("d.json", wording="text") == {"cat": ["which has It purrs"], "dog": []}


@pytest.mark.parametrize(
    ("template", "usual"),
    [
        ("a photo of a {}. ", "a photo of a {}."),
        ("a photo of a {}..", "a photo of a {}."),
        ("a photo of a {}...", "a photo of a {}."),
        ("a photo of a {}. .", "a photo of a {}."),
        ("a photo of a {} .", "a photo of a {}."),
        (" a photo of a {}.", "a photo of a {}."),
        ("a photo of  a {}.", "a photo of a {}."),
        ("{} ", "{}"),
    ],
)
def test_a_template_that_is_odd_at_its_end_is_a_warning(world, template: str, usual: str) -> None:
    (line,) = world(template=template)
    assert line.startswith(f"template {template!r} ")
    assert line.endswith(f"write {usual!r}")
    assert world(template=usual) == []


def test_usual_templates_are_not_odd() -> None:
    for template in ("a photo of a {}.", "{}", "a photo of a {c}, a type of pet.", "itap of a {}", "a {} in the U.S."):
        assert oddity(template) == ""


def test_a_source_of_one_class_is_an_error_where_a_run_begins(world) -> None:
    world()
    for split in ("train", "test"):
        for name in ("green", "blue", "white"):
            for path in Path("photo", split, name).iterdir():
                path.unlink()
    message = "the source has one class, 'red'; soups and heads tell two or more apart: add classes"
    assert message in world()
    with pytest.raises(DataError, match=message):
        call_stage("prepare", "photo")


def test_the_offset_trick_at_one_offset_is_a_row_of_its_own() -> None:
    numbers = {
        offsets: Row("s", (1,), ("a",), offsets=offsets).n_offsets for offsets in ((0,), (5,), (0, 5), (3, 5, 7))
    }
    assert numbers == {(0,): 1, (5,): 2, (0, 5): 2, (3, 5, 7): 3}
