"""Exported soups: the packages that read them classify each image as wsoup does."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import open_clip
import pytest
import torch
from api_world import NAMES, photos
from rich.console import Console
from run_cli import run

from wsoup.api.soups import Soup
from wsoup.base.errors import ParamsError
from wsoup.cli.formats import export, show
from wsoup.core.member import Member, Step

MEMBERS = (
    Member("sharp clean", 40, 60, (Step("sharp", 38), Step("clean", 40))),
    Member("which is {flat} {c}", 35, 60, (Step("which is {flat} {c}", 35),)),
)
ENCODER = {"model": "m", "pretrained": "p", "weights": "w"}


@pytest.fixture
def soup(in_tmp) -> Soup:
    soup = Soup("chains", 1, "a photo of a {}.", ENCODER, MEMBERS)
    soup.save("artifacts/soups/word/seed1.json")
    return soup


def n_correct(classifier, encoder) -> int:
    images = photos(encoder)
    return int(((images.features @ classifier).argmax(dim=1) == images.labels).sum())


def ours(soup, encoder) -> torch.Tensor:
    return soup.classifier(class_names=NAMES, model=encoder.model, tokenizer=encoder.tokenizer)


def test_open_clip_builds_the_same_classifier_of_the_exported_templates(soup, tiny_encoder):
    code, printed, _ = run("soup", "export", "word-seed1", "--format", "open_clip")
    assert code == 0
    namespace: dict = {}
    exec(printed, namespace)
    theirs = open_clip.build_zero_shot_classifier(
        tiny_encoder.model, tiny_encoder.tokenizer, NAMES, namespace["templates"]
    )
    torch.testing.assert_close(ours(soup, tiny_encoder), theirs, atol=1e-6, rtol=0)
    assert n_correct(theirs, tiny_encoder) == n_correct(ours(soup, tiny_encoder), tiny_encoder)


def test_clip_benchmark_fills_the_exported_templates_with_the_same_texts(soup):
    run("soup", "export", "word-seed1", "--format", "clip_benchmark", "--out", "templates.json")
    written = json.loads(Path("templates.json").read_text())
    assert list(written) == ["imagenet1k"]  # its key for every dataset that has none of its own
    # as its metrics/zeroshot_classification.py fills them
    assert [template.format(c="ice {cube}") for template in written["imagenet1k"]] == [
        "a photo of a ice {cube}, sharp clean.",
        "a photo of a ice {cube}, which is {flat} {c}.",
    ]


def test_a_soup_is_not_replaced_by_its_export(soup):
    file = Path("artifacts/soups/word/seed1.json")
    before = file.read_bytes()
    code, _, errors = run("soup", "export", str(file), "--format", "open_clip", "--out", str(file))
    assert (code, file.read_bytes()) == (1, before)
    assert "seed1.json is also an input; give another name" in errors
    assert run("soup", "export", str(file), "--format", "text", "--out", str(file), "--force")[0] == 1
    Path("mine.txt").write_text("mine")
    assert "mine.txt exists already" in run("soup", "export", str(file), "--format", "text", "--out", "mine.txt")[2]
    assert run("soup", "export", str(file), "--format", "text", "--out", "mine.txt", "--force")[0] == 0
    assert file.read_bytes() == before


def test_text_has_one_template_per_line(soup):
    assert run("soup", "export", "word-seed1", "--format", "text")[1].splitlines() == soup.templates()


@pytest.mark.parametrize("form", ["open_clip", "clip_benchmark", "text"])
def test_the_template_of_an_option_is_in_every_text(soup, form):
    """`export --template` is for another dataset: each text has it in place of the soup's."""
    printed = run("soup", "export", "word-seed1", "--format", form, "--template", "art of a {}.")[1]
    assert printed.count("art of a ") == 2
    assert "photo" not in printed


@pytest.mark.parametrize("line_break", ["\n", "\r", "\x0b", "\x85", "\u2028"])
def test_a_text_with_any_line_break_is_no_line_of_text(soup, line_break):
    """Python's `splitlines`, which readers of such a file use, breaks at all of these."""
    broken = replace(soup, members=(Member("sharp"), Member(f"flat{line_break}wet")))
    with pytest.raises(ParamsError, match="holds a line break: text has one line per text"):
        export(broken, form="text")
    assert (
        json.loads(export(broken, form="clip_benchmark"))["imagenet1k"][1]
        == f"a photo of a {{c}}, flat{line_break}wet."
    )


def test_equal_members_of_several_seeds_are_one_line_with_their_weight(soup):
    twice = Soup("chains", None, soup.template, ENCODER, (*MEMBERS, MEMBERS[0]))
    namespace: dict = {}
    exec(export(twice, form="open_clip"), namespace)
    assert sorted(namespace["templates"]) == sorted(twice.templates())


# ------------------------------------------------------------------------------------------------- show and diff


def drawn(renderable) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(renderable, highlight=False)
    return console.export_text()


def test_a_soup_is_shown_with_the_steps_of_its_search(soup):
    text = drawn(show(soup))
    assert "chains soup, seed 1, 2 members, encoder m/p, template 'a photo of a {}.'" in text
    assert "sharp 38 → clean 40" in text
    assert "66.67 %" in text
    assert "(class name only)" in drawn(show(soup.class_name_soup()))
    for name in ("artifacts/soups/word/seed1.json", "artifacts/soups/word-seed1.json", "word-seed1"):
        assert "sharp 38 → clean 40" in run("soup", "show", name)[1]


def test_steps_that_were_counted_without_the_final_period_are_not_shown(soup):
    """Their last count is not the member's: 40 beside 41 reads as a bug."""
    first, second = MEMBERS
    other = replace(first, trace=(Step("sharp", 38), Step("clean", 41)))
    text = drawn(show(replace(soup, members=(other, second))))
    assert "41" not in text
    assert "after each added word" not in text
    assert "66.67 %" in text


def test_a_soup_without_counts_has_no_empty_columns(soup):
    text = drawn(show(replace(soup, members=(Member("sharp"), Member("clean")))))
    assert [line.split() for line in text.splitlines()[1:]] == [["#", "member"], ["1", "sharp"], ["2", "clean"]]


def test_a_soup_of_templates_is_shown_and_exported_as_it_is(in_tmp, tiny_encoder):
    soup = Soup.from_templates(["art of the {}", "a {c} in {flat} style."])
    assert soup.templates(place="{c}") == ["art of the {c}", "a {c} in {{flat}} style."]
    soup.save("templates.json")
    code, printed, errors = run("soup", "export", "templates.json", "--format", "text", "--template", "a {}.")
    assert (code, printed) == (0, "art of the {}\na {} in {{flat}} style.\n")
    assert errors == "templates.json: its members are templates themselves, so --template is not used\n"
    code, printed, _ = run("soup", "show", "templates.json")
    assert code == 0
    assert "whole templates" in printed.splitlines()[0]
    assert "art of the {}" in printed
