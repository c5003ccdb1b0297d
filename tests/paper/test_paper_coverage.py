"""Every row of the paper's tables that can be run is filled by one of the paper's profiles, marked where it differs."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from run_cli import run
from yaml_in_c import safe_load

from wsoup.base.errors import ParamsError
from wsoup.paper import tables
from wsoup.paper.coverage import Covered, coverage, lacks, of_params
from wsoup.paper.options import advice
from wsoup.paper.settings import Settings
from wsoup.paper.tables import ENCODERS, TABLES
from wsoup.pipeline.params import parse_params
from wsoup.pipeline.profiles.paper import Paper


@cache
def profile(**choices: Any) -> Settings:
    """Profile paper; `encoder` and `fewshot_pickles` are keys of params.yaml."""
    (model, pretrained), pickles = choices.pop("encoder", ENCODERS[0]), choices.pop("fewshot_pickles", "/pickles")
    given = {"gpt_descriptors": "/gpt", "methods": "all", "words": "/gpt/words.txt"}
    raw = safe_load(Paper("/data", **{**given, **choices}).text())
    raw["encoder"] |= {"model": model, "pretrained": pretrained}
    raw["datasets"][raw["source"]]["fewshot_pickles"] = pickles
    return of_params(parse_params(raw, origin="paper").model_dump(mode="json", by_alias=True))


def changed(**changes: Any) -> Settings:
    """Profile paper with other values, by dotted key (two underscores for a dot); None of a dataset removes it."""
    by_key = {key.replace("__", "."): value for key, value in changes.items()}
    removed = tuple(f"{key}." for key, value in by_key.items() if value is None)
    kept = {key: value for key, value in profile().values.items() if not key.startswith(removed or "-")}
    return Settings({**kept, **{key: value for key, value in by_key.items() if value is not None}}, profile().pools)


def by_name(settings: Settings) -> dict[str, Covered]:
    return {f"{line.row.table}/{line.row.label}": line for line in coverage(settings, table="all")}


def whys(row: Covered) -> list[str]:
    return [mark.why for mark in row.marks]


def test_every_row_that_can_be_run_is_filled_by_the_run_of_its_encoder():
    """In the paper's order; only these are marked with the paper's own encoder."""
    rows = by_name(profile())
    listed = coverage(profile(), table="all")
    assert [line.row.table for line in listed] == [table for table in TABLES for _ in tables.table_rows(table)]
    assert [name for name, line in rows.items() if name.endswith("\u2020") and line.sign != "-"] == []
    marked = {name for name, line in rows.items() if line.marks}
    kinds = ("Waffle", "upper bound", "LoRA", "CoOp regularized")
    assert marked == {name for name, line in rows.items() if not line.missing and any(kind in name for kind in kinds)}
    soft = {name for name, line in by_name(profile(words=None)).items() if line.marks} - marked
    assert {name for name in rows if "ProDA" in name or "CoOp ensemble" in name} <= soft, "they start from --words"
    runnable = {name for name, line in rows.items() if line.row.row and line.row.table != "laion_source"}
    profiles = [{"encoder": encoder} for encoder in ENCODERS]
    profiles += [{"source": target, "fewshot_pickles": None} for target in ("oxford_pets", "dtd")]
    covered = {name for choices in profiles for name, line in by_name(profile(**choices)).items() if not line.missing}
    assert runnable == covered


def test_every_known_difference_marks_a_row():
    profiles = [{"words": None}, *({"encoder": encoder} for encoder in ENCODERS)]
    marks = {mark.why for choices in profiles for line in by_name(profile(**choices)).values() for mark in line.marks}
    assert {known["why"] for known in Settings.of_paper().differs.values() if "column" not in known} <= marks


@pytest.mark.parametrize(
    ("choices", "label", "why"),
    [
        ({"methods": "core"}, "few_shot/ProDA", "params.yaml has no finetune.methods.proda"),
        ({"gpt_descriptors": None}, "zero_shot/GPT centroids", "datasets.*.gpt_desc"),
        ({"gpt_descriptors": None}, "zero_shot/Random descriptors", "descriptors.paths"),
        ({"gpt_descriptors": None}, "zero_shot/Descriptor soup", "no soups.descriptor"),
        ({}, "model_scaling/Open CLIP ViT-g/14: ZS", "params.yaml has no encoder.model=ViT-g-14*"),
        ({"encoder": ENCODERS[2]}, "zero_shot/CLIP ZS", "params.yaml has no encoder.model=ViT-B-16*"),
        ({}, "laion_source/Word soup", "params.yaml has no source=laion"),
        ({}, "few_shot/MaPLe \u2020", "its authors' figure, or a text that the paper shortens"),
    ],
)
def test_missing_rows_say_why(choices: dict[str, Any], label: str, why: str):
    assert why in by_name(profile(**choices))[label].missing


def test_what_an_option_fills_or_takes_away_is_counted_by_option():
    """A run of ImageNet and ViT-B/16 leaves 57 rows: 45 to other sources and models, 12 to nobody."""
    fills, marks = advice(coverage(profile(), table="all"))
    assert fills.endswith(
        " with --source oxford_pets (10), --source dtd (11), --model ViT-B-32 (5), --model ViT-L-14 (5), "
        "--model coca_ViT-L-14 (5), --model ViT-g-14 (5), --source laion:FOLDER (4)"
    )
    assert marks.endswith(" with --waffle FILE (3)")
    (marks,) = advice(coverage(profile(words=None), table="few_shot"))
    assert "--words FILE" in marks
    (fills,) = advice(coverage(profile(gpt_descriptors=None), table="single_descriptors"))
    assert "--source dtd (11)" in fills


def test_a_need_is_a_key_that_is_set_or_a_value_or_member():
    run = Settings({"a.b.c": 1, "a.x.c": None, "m": [1, 8], "source": "dtd", "off": False}, {})
    assert list(lacks(["a.b", "a.*.c", "m=8", "source=dtd", "source=d*"], run)) == []
    unmet = ["a.x", "a.b.d", "m=4", "source=pets", "off", "none"]
    assert list(lacks(unmet, run)) == unmet


def test_other_fewshot_images_mark_rows_selected_or_trained_on_them():
    """The authors' draws of ImageNet are CoOp's pickles; their images of LAION are not published."""
    rows = by_name(profile(fewshot_pickles=None))
    why = ["datasets.imagenet.fewshot_pickles: none, the paper's are the authors'"]
    assert whys(rows["zero_shot/Word soup"]) == whys(rows["few_shot/Vanilla CoOp"]) == why
    assert rows["zero_shot/CLIP ZS"].marks == rows["zero_shot/GPT centroids"].marks == []
    laion = coverage(profile(source="laion:/laion", fewshot_pickles=None), table="laion_source")
    assert [line.missing for line in laion] == [""] * 4
    unpublished = ["datasets.laion: the authors' images of LAION are not published"]
    assert [whys(line) for line in laion] == [[], unpublished, unpublished, unpublished]


def test_a_size_that_is_not_evaluated_leaves_its_row_out():
    row = by_name(changed(evaluate__m=[1, 8]))["parameter_efficiency/Word Soup m=4"]
    assert row.missing == "params.yaml has no evaluate.m=4"


def test_pools_without_a_file_count_as_the_authors(tmp_path):
    (tmp_path / "words.txt").write_text("".join(f"w{i}\n" for i in range(1500)))
    rows = by_name(profile(gpt_descriptors=str(tmp_path), words=str(tmp_path / "words.txt")))
    assert whys(rows["zero_shot/Word soup"]) == ["candidates.words: 1,500 texts, not the authors' list of 9,894"]
    assert rows["zero_shot/Descriptor soup"].marks == rows["zero_shot/CLIP ZS"].marks == []


def test_the_command_prints_coverage_of_params_yaml(tmp_path):
    text = Paper("/data", gpt_descriptors="/gpt", words="/gpt/words.txt").text()
    (tmp_path / "params.yaml").write_text(text)
    code, printed, _ = run("profile", "table", "few_shot", "--params", str(tmp_path / "params.yaml"))
    assert code == 0
    assert "  x  CLIP ZS: pretrained, class_name\n" in printed
    assert "  *  Vanilla CoOp: coop, class_name; datasets.imagenet.fewshot_pickles: none" in printed
    assert "  -  ProDA: params.yaml has no finetune.methods.proda\n" in printed
    count, assumed, fills, marks = printed.splitlines()[-4:]
    assert count == "23 rows: 1 filled (x), 11 filled but marked (*), 11 not (-)"
    assert assumed.startswith("Pools whose files are not there yet count as the authors'")
    assert fills == "filled by a params.yaml of `wsoup profile paper` with --methods all (7)"
    assert marks == (
        "marks that `wsoup profile paper` takes away with --fewshot-pickles FOLDER (11), --waffle FILE (1)"
    )
    _, printed, _ = run("profile", "table", "--params", str(tmp_path / "params.yaml"))
    assert "  *  Accuracy against m: reports/plots/accuracy_by_m; beside Word Soup m = 1 to 64 of " in printed
    assert "params.yaml has no finetune.methods.coop_diverse.snapshots\n" in printed
    with pytest.raises(ParamsError, match="table 'one' must be one of single_descriptors, word_chains, zero_shot"):
        coverage(profile(), table="one")


def test_the_papers_single_texts_are_counted_and_shown_beside_its_figures():
    assert tables.single_texts("oxford_pets")["a type of pet"] == {"alignment": 0.331, "accuracy": 89.0}
    assert tables.single_texts("imagenet")[""] == {"alignment": 0.301, "uniformity": 0.173, "accuracy": 67.1}
    pets = profile(source="oxford_pets", fewshot_pickles=None)
    assert pets.values["datasets.oxford_pets.template"] == "a photo of a {}."
    assert "which has soulful eyes" in pets.values["evaluate.texts"]
    rows = by_name(pets)
    assert not rows["single_descriptors/oxford_pets: a type of pet"].missing
    assert rows["single_descriptors/dtd: a type of texture"].missing == "params.yaml has no source=dtd"
