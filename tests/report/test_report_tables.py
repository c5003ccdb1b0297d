"""Tables: our figures beside the paper's, with marks, as text, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from report_made import CLASS_NAME, ROLES, TOY_ENCODER, both_seeds, results
from report_made import line as line_of

from wsoup.disk import store
from wsoup.paper import tables as paper
from wsoup.report.accuracy import (
    averages,
    finetuned_table,
    paper_tables,
    zero_shot_table,
)
from wsoup.report.counts import counts
from wsoup.report.labels import soup_rows
from wsoup.report.row_metrics import row_metrics
from wsoup.report.selected import selected_rates
from wsoup.report.single_texts import single_texts
from wsoup.report.tables import Table

table = zero_shot_table


def test_our_figure_the_papers_and_the_difference():
    # zero_shot.csv: CLIP ZS has 67.1 on INet and 43.6 on DTD.
    row = table(results()).rows[0]
    assert (row["method"], row["m"]) == ("CLIP ZS", 1.0)
    assert (row["imagenet"], row["imagenet (paper)"]) == (60.0, 67.1)
    assert row["imagenet (diff)"] == pytest.approx(-7.1)
    assert row["dtd (diff)"] == pytest.approx(-3.6)
    assert row["XD mean"] == 30.0


def test_a_folder_with_the_name_of_a_paper_dataset_has_no_figures_of_the_paper():
    """Nor has the toy world; its columns for them are empty."""
    toy = {"roles": {"shapes": "source", "counts": "xd"}, "encoder": TOY_ENCODER}
    lines = both_seeds("class_name", {"shapes": (1, 1), "counts": (2, 2)})
    for run in (results(layout="imagefolder"), results(lines, **toy)):
        assert not [column for column in table(run).rows[0] if column.endswith("(paper)")]
    header, row = csv.reader(io.StringIO(table(run).as_csv()))
    assert row[header.index("counts (paper)")] == ""
    assert "| Class name only | 1 | 1.00 | 2.00 | 2.00 |" in table(run).as_markdown()


def test_a_metric_that_somebody_added_has_a_column_of_counts_and_a_table_of_means():
    """0.5 and 0.7 with the two seeds are 0.6 on average with a deviation of 0.141. The soup has none."""
    lines = both_seeds("class_name", dict.fromkeys(("dtd", "eurosat"), (40, 40)))
    for values in lines:
        values["metrics"] = {"macro": 0.4 + 0.1 * values["seed"] + 0.1 * (values["seed"] == 2)}
    lines += both_seeds("word_soup", dict.fromkeys(("dtd", "eurosat"), (44, 46)))
    run = results(lines, roles={"dtd": "xd", "eurosat": "xd"})
    counted = counts(run, together={})
    assert [row.get("macro") for row in counted.rows] == pytest.approx([0.5, 0.7] * 2 + [None] * 4)
    shown = row_metrics(run).as_markdown()
    assert "| method | XD mean: macro |" in shown
    assert "| CLIP ZS | 0.600 ± 0.141 |" in shown
    assert "| Word soup |  |" in shown
    assert results().metrics == []


def test_counts_are_in_the_order_of_datasets_and_seeds_however_a_run_was_read():
    """Else git would show every line of reports/tables/counts.csv."""
    lines = both_seeds("class_name", CLASS_NAME)
    ordered = counts(results(lines), together={}).rows
    assert [(row["dataset"], row["seed"]) for row in ordered] == [(d, seed) for d in ROLES for seed in (1, 2)]
    for other in (lines[::-1], lines[1::2] + lines[::2]):
        assert counts(results(other), together={}).rows == ordered


def test_the_papers_mean_is_only_shown_for_the_same_datasets():
    assert "XD mean (paper)" not in table(results()).rows[0]  # two of its ten datasets
    roles = dict.fromkeys(("imagenetv2", "imagenet_sketch", "imagenet_a", "imagenet_r"), "dg")
    lines = both_seeds("class_name", dict.fromkeys(roles, (50, 50)))
    assert table(results(lines, roles=roles)).rows[0]["DG mean (paper)"] == 57.22
    del roles["imagenetv2"]
    with_source = {"imagenet": "dg", **roles}
    lines = both_seeds("class_name", dict.fromkeys(with_source, (50, 50)))
    assert "DG mean (paper)" not in table(results(lines, roles=with_source)).rows[0], "four, but with ImageNet"
    row = table(results(layout="coop:dtd")).rows[0]
    assert "dtd (paper)" in row
    assert "eurosat (paper)" not in row, "a folder of another of the paper's datasets"


def test_another_split_and_another_encoder_are_marked_with_the_reason():
    shown = table(results(unlike=("dtd",)))
    assert "dtd (mark)" in shown.rows[0]
    assert "eurosat (mark)" not in shown.rows[0]
    assert "* not comparable with the paper's: dtd: 99 images, not 100." in shown.notes
    shown = table(results(encoder={"model": "ViT-B-32", "pretrained": "laion2b"}))
    assert shown.rows[0]["imagenet (mark)"] == "*"
    assert "encoder ViT-B-32 / laion2b, theirs ViT-B-32 / openai" in "".join(shown.notes)


def test_a_cell_reads_ours_deviation_paper_and_difference():
    lines = both_seeds("class_name", {**CLASS_NAME, "imagenet": (60, 62)})
    assert "61.00 ± 1.41 (67.1, -6.10)" in table(results(lines)).as_markdown()


def test_encoders_are_compared_by_tag_and_activation_not_by_name():
    """OpenAI's weights need QuickGELU, whatever the model is called; the paper finetunes one model alone."""
    for model, tag in paper.ENCODERS:
        assert paper.encoder_differs(named(model, tag), tuned=False) is None
    reason = paper.encoder_differs(named("ViT-g-14", "laion2b_s12b_b42k"), tuned=False)
    assert reason == "encoder ViT-g-14 / laion2b_s12b_b42k, theirs ViT-g-14 / laion2b_s34b_b88k"
    assert "theirs ViT-B-16 / openai" in paper.encoder_differs(named("ViT-B-32", "openai"), tuned=True)
    for model in ("ViT-B-16", "ViT-B-16-quickgelu"):
        assert paper.encoder_differs(named(model, "openai"), tuned=True) is None
        wrong = paper.encoder_differs({**named(model, "openai"), "quick_gelu": False}, tuned=True)
        assert wrong == "encoder ViT-B-16 / openai with GELU, theirs with QuickGELU"


def named(model: str, tag: str) -> dict[str, object]:
    return {"model": model, "pretrained": tag, "quick_gelu": tag == "openai"}


def test_a_soup_of_another_name_has_no_figures_of_the_paper():
    for row in soup_rows("word_k50"):
        for model in ("ViT-B-16", "ViT-B-32"):
            assert paper.zero_shot(row.key, encoder=named(model, "openai")) == {}


def test_numbers_stored_are_beside_the_papers():
    lines = both_seeds("class_name", CLASS_NAME, variant="coop", stored=0)
    lines += both_seeds("word_soup", CLASS_NAME, variant="coop_diverse", m=2)
    run = results(lines, parameters={"coop": 1536, "coop_diverse": 1536})
    (shown,) = [table for table in paper_tables(run) if table.name == "parameter_efficiency"]
    assert [(row["method"], row["stored"], row["stored (paper)"]) for row in shown.rows] == [
        ("CoOp 3 tokens", 1536.0, 2000.0),
        ("Word Soup + CoOp m=8", 1538.0, 2000.0),
    ]


def test_rows_of_undefined_soups_are_left_out():
    lines = both_seeds("class_name", CLASS_NAME) + both_seeds("long_soup", CLASS_NAME, variant="coop", m=2)
    run = results(lines, soups=("long",), parameters={"coop": 1536})
    assert run.row("word_soup@8") is None
    assert [row["method"] for row in finetuned_table(run, heads=()).rows] == ["coop + Soup long"]
    assert finetuned_table(run, heads=()).title == "Accuracy after finetuning"
    assert finetuned_table(run, heads=["coop"]).title == "Accuracy of the heads"
    assert paper_tables(run) == []


def test_averages_are_rounded_means_by_variant_and_row():
    entries = averages(results())["pretrained"]
    places = {"source": 60.0, "xd": 30.0, "dg": 30.0}
    assert entries["class_name"] == places | {f"{role} (std)": 0.0 for role in places}
    assert entries["word_soup"]["xd (std)"] == 2.828
    lines = both_seeds("word_soup", {"dtd": (44, 46), "eurosat": (30, 21)}, m=2)
    run = results(lines, roles={"dtd": "xd", "eurosat": "xd"})
    assert averages(run)["pretrained"]["word_soup"]["xd"] == 35.25


def test_figures_over_laion_stand_in_a_table_of_their_own():
    """A run on ImageNet has the others, one on LAION that one alone."""
    made = {}
    for source in ("imagenet", "laion"):
        roles = {source: "source", "dtd": "xd"}
        lines = both_seeds("class_name", dict.fromkeys(roles, (50, 50)), variant="coop", stored=0)
        run = results(lines, roles=roles, parameters={"coop": 1536})
        made[source] = {table.name for table in paper_tables(run)}
    assert made["laion"] <= {"laion_source"}
    assert made["imagenet"]
    assert "laion_source" not in made["imagenet"]


def test_a_partial_row_has_no_mean():
    run = results(both_seeds("class_name", CLASS_NAME) + both_seeds("gpt", {"dtd": (50, 50)}, m=None))
    assert averages(run)["pretrained"]["gpt_centroids"] == {}
    row = table(run).rows[1]
    assert row["dtd"] == 50.0
    assert math.isnan(row["XD mean"])


def test_counts_cover_every_row_dataset_and_seed():
    soup = {name: np.array([[True, False]] * 2) for name in CLASS_NAME}
    *rows, last = counts(results(), together={"word_all_seeds": soup}).rows
    assert len(rows) + 1 == 3 * 4 * 2
    assert (last["row"], last["seed"], last["n_correct"], last["n_images"]) == ("word_all_seeds", 2, 1, 2)
    assert {"variant": "pretrained", "row": "word_soup", "dataset": "eurosat", "role": "xd", "seed": 2}.items() <= rows[
        13
    ].items()
    assert sum(row["n_correct"] for row in rows if row["row"] == "class_name") == 300
    facts = {name: {"images": f"{name:*<16}{'f' * 48}"} for name in CLASS_NAME}
    told = counts(replace(results(), facts=facts), together={}).rows
    assert {row["images"] for row in told} == {f"{name:*<16}" for name in CLASS_NAME}


def test_the_upper_bound_is_marked_as_no_result():
    shown = table(results(both_seeds("upper_bound", CLASS_NAME)))
    assert shown.notes[-1] == "The upper bound was selected on the targets' test images, so it is not a result."


def test_deviations_due_to_rounding_and_missing_numbers_are_not_shown():
    assert "| 1.00 |" in Table("t", "T", ["a"], [{"a": 1.0, "a (std)": 1e-15}]).as_markdown()
    assert Table("t", "T", ["a", "b"], [{"a": "x", "b": math.nan}]).as_csv() == "a,b\nx,\n"


def test_single_texts_are_shown_with_changes_and_the_papers_figures(tmp_path):
    """A given text that helps on one dataset and hurts on another, by hand; others of soups that are there."""
    n_correct = {"imagenet": 58, "dtd": 40, "eurosat": 26, "imagenet_a": 30}
    of_the_paper = "which is a curved or rectangular shape"
    texts = [("given_text", "a type of pet"), ("word_soup", of_the_paper), ("gone_soup", "blunt")]
    lines = [
        {**line_of(method, name, 1, n, alignment=0.31, uniformity=0.17), "text": text}
        for method, text in texts
        for name, n in n_correct.items()
    ]
    store.write_table(tmp_path / "texts.parquet", pa.Table.from_pylist(lines))
    table = single_texts(tmp_path / "texts.parquet", results=results())
    plain, pet, word = table.rows
    assert [(row["kind"], row["text"]) for row in table.rows] == [
        ("given", "(class name only)"),
        ("given", "a type of pet"),
        ("word soup", of_the_paper),
    ]
    assert (pet["source"], pet["source change"]) == (58, -2)
    assert (pet["xd"], pet["xd change"], pet["dtd change"]) == (33, 3, 0)
    assert (pet["xd alignment"], word["dtd uniformity"]) == (pytest.approx(0.31), 0.17)
    assert (plain["imagenet (paper)"], plain["imagenet uniformity (paper)"]) == (67.1, 0.173)
    assert not any("(paper)" in key for key in (*pet, *word))
    assert "0.200 (0.173, +0.027)" in table.as_markdown()


def test_the_chosen_rate_is_marked_beside_what_each_got_right():
    tried = [(1e-5, 12), (1e-4, 15)]
    lines = [{"learning_rate": rate, "n_correct": right, "n_images": 24} for rate, right in tried]
    shown = selected_rates(replace(results(), selected={"prolip": lines})).as_markdown()
    assert "| prolip | 1e-05 | 50.00 | 12 | 24 |  |" in shown
    assert "| prolip | 0.0001 | 62.50 | 15 | 24 | yes |" in shown
