"""Every row of the paper's tables that can be run is filled by one of the paper's profiles, marked where it differs."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import yaml
from run_cli import run

from wsoup.base.errors import ParamsError
from wsoup.check.whole import Params, parse_params
from wsoup.profiles.paper import ENCODERS, paper
from wsoup.report import paper as theirs
from wsoup.report.coverage import coverage, figures, own_rows, unknown
from wsoup.report.paper import TABLES, PaperRow


def params_of(**choices: Any) -> Params:
    return _params_of(tuple(sorted(choices.items())))


@cache
def _params_of(choices: tuple[tuple[str, Any], ...]) -> Params:
    given = {"gpt_descriptors": "/gpt", "methods": "all", "fewshot_pickles": "/pickles", "words": "/gpt/words.txt"}
    given |= dict(choices)
    return parse_params(yaml.safe_load(paper("/data", **given)), origin="paper")


def filled(rows: list[PaperRow]) -> list[str]:
    return [f"{row.table}/{row.label}" for row in rows if not row.missing]


def marked(rows: list[PaperRow]) -> list[str]:
    return [f"{row.table}/{row.label}" for row in rows if not row.missing and row.marks]


@pytest.mark.parametrize(
    ("encoder", "theirs", "not_theirs"), [("ViT-B-16", 79, 17), ("ViT-B-32", 4, 1), ("ViT-L-14", 0, 5)]
)
def test_number_of_unmarked_and_marked_rows_by_encoder(encoder, theirs, not_theirs):
    rows = coverage(params_of(encoder=encoder), table="all")
    assert (len(filled(rows)) - len(marked(rows)), len(marked(rows))) == (theirs, not_theirs)


def test_rows_marked_for_the_papers_own_encoder():
    """Only Waffle, the upper bound, ProDA, LoRA, the soft ensemble and the regularised CoOp."""
    kinds = ("Waffle", "upper bound", "ProDA", "LoRA", "CoOp ensemble", "CoOp regularized")
    rows = coverage(params_of(), table="all")
    assert {next(kind for kind in kinds if kind in label) for label in marked(rows)} == set(kinds)
    assert all(label in marked(rows) for label in filled(rows) if any(kind in label for kind in kinds))


def test_every_row_that_can_be_run_is_filled():
    """LAION's rows need its images as a source; all others are one run per encoder."""
    runnable = [row for row in coverage(params_of(), table="all") if not row.reported and row.table != "laion_source"]
    assert len(runnable) == 12 + 20 + 19 + 10 + 55
    covered = {name for encoder in ENCODERS for name in filled(coverage(params_of(encoder=encoder), table="all"))}
    assert {f"{row.table}/{row.label}" for row in runnable} == covered


def test_every_row_of_every_table_is_listed_once_in_the_papers_order():
    rows = coverage(params_of(), table="all")
    assert list(dict.fromkeys(row.table for row in rows)) == list(TABLES)
    for table in TABLES:
        labels = [row.label.split(": ")[-1] for row in rows if row.table == table]
        assert labels == [line["method"] for line in theirs.read(table)]


def test_heads_are_listed_as_not_from_the_paper():
    assert own_rows(params_of()) == ""
    raw = yaml.safe_load(paper("/data", without_descriptors=True))
    raw |= {"heads": {"mine": {"kind": "ridge", "soup": "word"}}}
    assert own_rows(parse_params(raw, origin="paper")) == "not the paper's:\n  +  heads.mine: ridge, word\n"


def test_rows_reported_by_their_own_authors_say_so():
    reported = [row for row in coverage(params_of(), table="few_shot") if row.reported]
    assert len(reported) == 4
    assert {row.missing for row in reported} == {"as reported by its authors: the paper did not run it"}


@pytest.mark.parametrize(
    ("choices", "label", "why"),
    [
        ({"methods": "core"}, "few_shot/ProDA", "finetune.methods has no 'proda': --methods"),
        ({"gpt_descriptors": None, "without_descriptors": True}, "zero_shot/GPT centroids", "no dataset has gpt"),
        ({"gpt_descriptors": None, "without_descriptors": True}, "zero_shot/Random descriptors", "names no file"),
        ({"gpt_descriptors": None, "without_descriptors": True}, "zero_shot/Descriptor soup", "soups has no 'descrip"),
        ({}, "model_scaling/Open CLIP ViT-g/14: ZS", "another encoder: wsoup profile paper --encoder ViT-g-14"),
        ({"encoder": "ViT-L-14"}, "zero_shot/CLIP ZS", "another encoder: wsoup profile paper --encoder ViT-B-16"),
        ({}, "laion_source/Word soup", "another source: images of LAION"),
    ],
)
def test_missing_rows_say_why(choices: dict[str, Any], label: str, why: str):
    rows = {f"{row.table}/{row.label}": row for row in coverage(params_of(**choices), table="all")}
    assert why in rows[label].missing


def test_other_fewshot_images_mark_rows_selected_or_trained_on_them():
    """The authors' draws of ImageNet are CoOp's pickles; their images of LAION are not published."""
    marks = {f"{row.table}/{row.label}": row.marks for row in coverage(params_of(fewshot_pickles=None), table="all")}
    why = ("datasets.imagenet.fewshot_pickles: none, the paper's are the authors' (--fewshot-pickles)",)
    assert marks["zero_shot/Word soup"] == marks["few_shot/Vanilla CoOp"] == why
    assert marks["zero_shot/CLIP ZS"] == marks["zero_shot/GPT centroids"] == ()
    laion = coverage(params_of(source="laion", laion="/laion", fewshot_pickles=None), table="laion_source")
    assert {row.label: row.missing for row in laion} == dict.fromkeys((row.label for row in laion), "")
    unpublished = ("datasets.laion: the authors' images of LAION are not published",)
    assert [row.marks for row in laion] == [(), unpublished, unpublished, unpublished]


def test_a_changed_key_marks_a_row_and_an_unevaluated_size_leaves_it_out():
    raw = params_of().model_dump(mode="json", by_alias=True)
    raw["soups"]["word"]["k0"] = 100
    raw["evaluate"]["m"] = [1, 8]
    rows = {f"{row.table}/{row.label}": row for row in coverage(parse_params(raw, origin="x"), table="all")}
    assert rows["zero_shot/Word soup"].marks == ("soups.word.k0: 100, the paper's 250",)
    assert rows["parameter_efficiency/Word Soup m=4"].missing == "soups.word_curve is not evaluated at m = 4"


@pytest.mark.parametrize(
    ("changes", "row", "why"),
    [
        (
            {"datasets.dtd.template": "{}."},
            "CLIP ZS",
            "dtd: template '{}.', the authors' is 'a photo of",
        ),
        ({"datasets.sun397.test_split": "val"}, "CLIP ZS", "sun397: test_split: val, the paper's is test"),
        ({"datasets.dtd.class_names": "x"}, "CLIP ZS", "datasets.dtd.class_names: x, the paper's are CoOp's"),
        ({"datasets.eurosat": None}, "CLIP ZS", "datasets: no eurosat"),
        ({"candidates.words.path": None}, "Word soup", "candidates.words: 9,894 texts, not the authors' list of 9,894"),
        ({"encoder.precision": "bf16"}, "CLIP ZS", "encoder.precision: bf16, the paper's fp32"),
    ],
)
def test_marks_are_those_of_the_report(changes: dict[str, Any], row: str, why: str):
    raw = params_of().model_dump(mode="json", by_alias=True)
    for key, value in changes.items():
        *path, last = key.split(".")
        section = raw
        for name in path:
            section = section[name]
        section[last] = value
        if value is None and last == "eurosat":
            del section[last]
    rows = {row.label: row.marks for row in coverage(parse_params(raw, origin="x"), table="zero_shot")}
    assert any(mark.startswith(why) for mark in rows[row])


def test_pools_without_a_file_are_unknown(tmp_path):
    assert unknown(params_of())[0] == "whether candidates.words are the authors' (no such file yet)"
    (tmp_path / "words.txt").write_text("".join(f"w{i}\n" for i in range(1500)))
    params = params_of(gpt_descriptors=str(tmp_path), words=str(tmp_path / "words.txt"))
    marks = {row.label: row.marks for row in coverage(params, table="zero_shot")}
    assert marks["Word soup"] == ("candidates.words: 1,500 texts, not the authors' list of 9,894 (--words)",)
    assert marks["CLIP ZS"] == ()
    assert not any("words" in what for what in unknown(params))


def test_every_figure_of_the_paper_says_what_differs():
    """Profile paper has all but training curves and single texts, which are separate runs."""
    lines = figures(params_of())
    assert [line[2] for line in lines] == list("--****-**")
    assert lines[0] == "  -  Single descriptors on Pets (table 1): params.yaml has no datasets.oxford_pets.role=source"
    assert lines[3] == (
        "  *  Accuracy against m: reports/plots/accuracy_by_m; beside Word Soup m = 1 to 64 of "
        "reports/tables/parameter_efficiency; differs: GPT centroids are one point, at the mean number of "
        "descriptors per class"
    )
    assert lines[6].endswith("params.yaml has no finetune.methods.coop_diverse.snapshots")
    pets = params_of(source="oxford_pets", fewshot_pickles=None)
    assert figures(pets)[0].startswith(
        "  *  Single descriptors on Pets (table 1): reports/tables/given_texts; beside nothing: the paper's figures "
        "for it are not available; differs: "
    )


def test_figures_name_another_encoder():
    """All of the paper's figures, and the points beside them, are of ViT-B/16."""
    lines = [line for line in figures(params_of(encoder="ViT-B-32")) if line[2] == "*"]
    assert len(lines) == 6
    assert all("differs: encoder ViT-B-32 / openai, theirs ViT-B-16 / openai; " in line for line in lines)
    assert not any("theirs ViT-B-16" in line for line in figures(params_of()))


def test_the_command_prints_coverage_of_params_yaml(tmp_path):
    profile = paper("/data", gpt_descriptors="/gpt", fewshot_pickles="/pickles", words="/gpt/words.txt")
    (tmp_path / "params.yaml").write_text(profile)
    code, printed, _ = run("profile", "paper", "--table", "few_shot", "--params", str(tmp_path / "params.yaml"))
    assert code == 0
    assert "  x  Vanilla CoOp: coop, class_name\n" in printed
    assert "  -  ProDA: finetune.methods has no 'proda': --methods\n" in printed
    count, words, _, images = printed.splitlines()[-4:]
    assert count.startswith("23 rows: 10 filled (x), 2 filled but marked (*), 11 not (-)")
    assert words == "not known before a run: whether candidates.words are the authors' (no such file yet)"
    assert images == "not known before a run: test images and classes of each dataset (`wsoup check`)"
    with pytest.raises(ParamsError, match="--table 'one' must be one of zero_shot, model_scaling, few_shot"):
        coverage(params_of(), table="one")
