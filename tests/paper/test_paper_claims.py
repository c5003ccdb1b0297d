"""The paper's claims beside the numbers of a finished run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from project import ROOT

from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.paper import claims, tables
from wsoup.paper.claims_in_points import Claim, in_points, offsets_of_words
from wsoup.report.gains import BASELINES
from wsoup.report.labels import BEFORE_SOUPS
from wsoup.report.tables import Table

EFFICIENCY = [
    {"method": "CoOp 1 token", "stored": 512.0, "XD mean": 60.0, "DG mean": 50.0},
    {"method": "CoOp 3 tokens", "stored": 1536.0, "XD mean": 62.0, "DG mean": 51.0},
    {"method": "LoRA rank=1", "stored": 18432.0, "XD mean": 61.0},
    {"method": "Word Soup m=1", "stored": 12.0, "XD mean": 59.0, "DG mean": 49.0},
    {"method": "Word Soup m=2", "stored": 24.0, "XD mean": 61.5, "DG mean": 52.0},
    {"method": "Word Soup + CoOp m=4", "stored": 1600.0, "XD mean": 70.0, "DG mean": 60.0},
]


def write(folder: Path, name: str, rows: list[dict[str, object]]) -> Path:
    """A table as stage `report` writes it."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    Table(name, "", columns, rows).write(folder)
    return folder / f"{name}.csv"


def test_descriptors_better_than_the_class_name_are_counted_without_ties(tmp_path):
    """Of the first seed: 9 and 7 are more than 5; a tie with it and the counts of another seed do not matter."""
    counts = {"": 5, "sharp": 9, "old": 2, "new": 7, "tie": 5}
    texts = [*counts, *counts]
    lines = pa.table({"text": texts, "seed": [1] * 5 + [2] * 5, "n_correct": [*counts.values(), 0, 9, 9, 9, 9]})
    store.write_table(tmp_path / "descriptors.parquet", lines)
    said = claims.better_descriptors(tmp_path / "descriptors.parquet")
    assert said == "Descriptors better than none: paper about 1200 of 4227, ours 2 of 4"
    assert "is missing" in claims.better_descriptors(tmp_path / "words.parquet")


def test_a_soup_of_two_is_compared_with_the_zero_shot_rows(tmp_path):
    """61.5 is more than 60 but not than 62; on DG only one was counted. Offset copies and soups are no baselines."""
    efficiency = write(tmp_path, "parameter_efficiency", EFFICIENCY)
    rows = [
        {"method": "Class name only", "XD mean": 60.0, "DG mean": 50.0},
        {"method": "Waffle CLIP", "XD mean": 62.0},
        {"method": "Waffle CLIP + offset trick", "XD mean": 70.0, "DG mean": 70.0},
        {"method": "Descriptor soup", "XD mean": 70.0, "DG mean": 70.0},
    ]
    said = claims.beaten_baselines(efficiency, zero_shot=write(tmp_path, "zero_shot", rows))
    assert said == (
        "A word soup of m = 2 beats all zero-shot baselines: XD ours 61.50 beats 1 of 2 (best: Waffle CLIP, 62.00; "
        "-0.50); DG ours 52.00 beats 1 of 1 (best: Class name only, 50.00; +2.00); does not agree"
    )
    said = claims.beaten_baselines(write(tmp_path, "parameter_efficiency", EFFICIENCY[:3]), zero_shot=tmp_path / "no")
    assert "has no Word Soup m=2" in said


def test_a_baseline_as_accurate_as_the_soup_of_two_is_not_beaten(tmp_path):
    efficiency = write(tmp_path, "parameter_efficiency", EFFICIENCY)
    baselines = write(tmp_path, "zero_shot", [{"method": "Waffle CLIP", "XD mean": 61.5, "DG mean": 51.99}])
    said = claims.beaten_baselines(efficiency, zero_shot=baselines)
    assert "XD ours 61.50 beats 0 of 1 (best: Waffle CLIP, 61.50; +0.00); DG ours 52.00 beats 1 of 1" in said
    assert said.endswith("does not agree")


def test_the_smallest_soup_that_reaches_the_best_coop_is_compared_with_it(tmp_path):
    """62 of CoOp's three tokens is reached by no soup; 51 by m = 2, with 1536 / 24 = 64 times fewer numbers."""
    said = claims.fewer_parameters(write(tmp_path, "parameter_efficiency", EFFICIENCY))
    assert said == (
        "25 and 70 times fewer parameters than CoOp's best: XD no word soup reaches 62.00 of CoOp 3 tokens; "
        "DG Word Soup m=2 reaches 51.00 of CoOp 3 tokens with 64 times fewer (paper: 70); does not agree"
    )
    assert "has no word soups" in claims.fewer_parameters(write(tmp_path, "parameter_efficiency", EFFICIENCY[:3]))


def test_a_soup_as_accurate_as_the_best_coop_reaches_it(tmp_path):
    """Both have 62 (XD) and 52 (DG): 1536 / 12 is 128 times fewer numbers."""
    rows = [
        {"method": "CoOp 3 tokens", "stored": 1536.0, "XD mean": 62.0, "DG mean": 52.0},
        {"method": "Word Soup m=1", "stored": 12.0, "XD mean": 62.0, "DG mean": 52.0},
        {"method": "Word Soup m=2", "stored": 24.0, "XD mean": 63.0, "DG mean": 53.0},
    ]
    said = claims.fewer_parameters(write(tmp_path, "parameter_efficiency", rows))
    assert "XD Word Soup m=1 reaches 62.00 of CoOp 3 tokens with 128 times fewer" in said
    assert said.endswith("agrees")


def test_single_words_and_the_correlation_are_told(tmp_path):
    """Two of three words are better than none; 1,000 are not more than 1,000, and 1,001 are."""
    scores = tmp_path / "words.parquet"
    for texts, counts, said in (
        (["", "a", "b", "c"], [5, 6, 7, 5], "ours 2 of 3; does not agree"),
        (["", *map(str, range(1000))], [0] + [1] * 1000, "ours 1000 of 1000; does not agree"),
        (["", *map(str, range(1001))], [0] + [1] * 1001, "ours 1001 of 1001; agrees"),
    ):
        store.write_table(scores, pa.table({"text": texts, "seed": [1] * len(texts), "n_correct": counts}))
        assert claims.better_words(scores) == f"More than 1,000 single words are better than none: {said}"
    plot = tmp_path / "transfer.json"
    assert "has no correlation" in claims.correlated(plot)
    for value, said in ((0.6824, "correlation 0.68; agrees"), (-0.1, "correlation -0.10; does not agree")):
        plot.write_text(json.dumps([{"correlation": value}]))
        assert claims.correlated(plot).endswith(said)


@pytest.fixture
def of_the_paper(tmp_path: Path) -> Artifacts:
    """A folder whose reports/tables are the paper's own, with the columns and the names that wsoup's tables have."""
    artifacts = Artifacts(tmp_path)
    folder = artifacts.reports / "tables"
    folder.mkdir(parents=True)
    for name in ("zero_shot", "few_shot", "diversity_ablation", "parameter_efficiency"):
        shutil.copy(ROOT / f"data/paper/{name}.csv", folder)
    lines = (folder / "parameter_efficiency.csv").read_text().splitlines()
    head = lines[0].replace("parameters_thousands", "stored")
    # The paper prints thousands: of "1" and "2" for CoOp's two and three tokens of 512 numbers each.
    exact = {"CoOp 2 tokens": "1024", "CoOp 3 tokens": "1536"}
    stored = []
    for line in lines[1:]:
        method, thousands, figures = line.split(",", 2)
        stored.append(f"{method},{exact.get(method, str(1000 * float(thousands)))},{figures}")
    (folder / "parameter_efficiency.csv").write_text("\n".join([head, *stored]) + "\n")
    return artifacts


def test_the_papers_own_tables_agree_with_its_claims(of_the_paper: Artifacts) -> None:
    said = list(claims.claims(of_the_paper))
    judged = [line for line in said if line.endswith(("agrees", "does not agree"))]
    assert [line for line in judged if line.endswith("does not agree")] == []
    assert [line.partition(":")[0] for line in judged] == [
        "A word soup of m = 2 beats all zero-shot baselines",
        "25 and 70 times fewer parameters than CoOp's best",
        "The offset trick adds 0.4 and 0.3 points to a finetuned descriptor soup",
        *(
            f"A word soup stacked on {method} adds 0.8 to 1.0 points (DG)"
            for method in ("Cross Entropy (CE)", "CoOp", "MaPLe", "CLIPood")
        ),
        "Soups with cross entropy are 1 and 0.8 points better than the best method of others",
        "The diversity loss adds 1 point to CoOp with a word soup",
        "Score means of a word soup are better than its centroid",
    ]
    both = {line.partition(":")[0]: line for line in judged}
    two, fewer, offsets, *_, others, diversity, score_mean = both.values()
    assert "XD ours 66.64 beats 6 of 6 (best: Random descriptors, 65.65; +0.99)" in two
    assert "DG ours 59.50 beats 6 of 6 (best: Ensemble, 59.36; +0.14)" in two
    assert "XD Word Soup m=4 reaches 66.89 of CoOp 2 tokens with 21 times fewer (paper: 25)" in fewer
    assert "DG Word Soup m=2 reaches 59.45 of CoOp 3 tokens with 64 times fewer (paper: 70)" in fewer
    assert "XD paper +0.41, ours +0.41; DG paper +0.31, ours +0.31; agrees" in offsets
    assert "XD paper +0.99, ours +0.99; DG paper +0.82, ours +0.82; agrees" in others
    assert "XD paper +1.02, ours +1.02; DG paper +1.05, ours +1.05; agrees" in diversity
    assert "XD paper +0.31, ours +0.31; DG paper +0.21, ours +0.21; agrees" in score_mean


def test_a_claim_does_not_agree_if_one_place_is_below_it(of_the_paper: Artifacts) -> None:
    """DG 60.20 -> 60.00: the diversity loss then adds 0.85, which is not 1."""
    table = of_the_paper.reports / "tables/diversity_ablation.csv"
    table.write_text(table.read_text().replace("60.20", "60.00"))
    line = next(line for line in claims.claims(of_the_paper) if line.startswith("The diversity loss"))
    assert line.endswith("DG paper +1.05, ours +0.85; does not agree")


def counted(folder: Path, rows: dict[tuple[str, str], int], *, seeds: int = 3) -> None:
    """The table of counts: correct images, of 10,000, of each row on one dataset of XD, the same with each seed."""
    lines: list[dict[str, object]] = []
    for (variant, row), n_correct in rows.items():
        for seed in range(seeds):
            where = {"variant": variant, "row": row, "dataset": "pets", "role": "xd", "seed": seed}
            lines.append({**where, "n_correct": n_correct, "n_images": 10_000})
    write(folder, "counts", lines)


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (1.2, "within noise"),  # large enough, and may be none
        (3.0, "agrees"),
        (0.5, "within noise"),  # too small, and may be a point
        (-3.0, "does not agree"),
    ],
)
def test_a_difference_that_noise_may_make_is_said_to_be_within_it(tmp_path: Path, gain: float, said: str) -> None:
    """The claim is of one point (XD); two rows near 67 % of 10,000 images have an interval of 1.3 to either side."""
    claim = Claim("x", "diversity_ablation", ("CoOp + word soup (lambda=0)",), ("Vanilla CoOp",), {"XD mean": 1.0})
    names = {row.label: (row.variant, row.row) for row in tables.rows("diversity_ablation")}
    (ours,), (over,) = claim.ours, claim.over
    write(tmp_path, "diversity_ablation", [{"method": ours, "XD mean": 67 + gain}, {"method": over, "XD mean": 67.0}])
    counted(tmp_path, {names[ours]: round(6_700 + 100 * gain), names[over]: 6_700})
    line = in_points(claim, tmp_path)
    assert line.endswith(f"; {said}")
    assert f"ours {gain:+.2f} [" in line


def test_rows_whose_seeds_overlap_do_not_beat_each_other(tmp_path: Path) -> None:
    """61.5 and 61.3 with deviations of 0.3 over seeds: 0.2 is within 2 x 0.42."""
    soup = {"method": "Word Soup m=2", "stored": 24.0, "XD mean": 61.5, "XD mean (std)": 0.3}
    baseline = {"method": "Waffle CLIP", "XD mean": 61.3, "XD mean (std)": 0.3}
    efficiency = write(tmp_path, "parameter_efficiency", [soup])
    said = claims.beaten_baselines(efficiency, zero_shot=write(tmp_path, "zero_shot", [baseline]))
    assert said.endswith("(best: Waffle CLIP, 61.30; +0.20 [-0.65, +1.05]); within noise")


def test_word_soups_gain_nothing_by_offsets_in_the_authors_log(tmp_path: Path) -> None:
    """Means over three seeds of means over datasets, from integer counts."""
    accuracy: dict[tuple[str, str], list[float]] = {}
    for line in (ROOT / "data/paper/authors_evaluation_log.csv").read_text().splitlines()[1:]:
        method, _, dataset, n_images, n_correct = line.split(",")
        accuracy.setdefault((method, dataset), []).append(100 * int(n_correct) / int(n_images))
    datasets = [dataset for method, dataset in accuracy if method == "ZS"]
    rows: list[dict[str, object]] = []
    for method, label in (("word-soup", "Word soup"), ("word-soup-token-offset", "Word soup + offset trick")):
        means = [sum(accuracy[method, dataset]) / 3 for dataset in datasets]
        rows.append({"method": label, "XD mean": sum(means[1:11]) / 10, "DG mean": sum(means[11:]) / 4})
    write(tmp_path, "zero_shot", rows)
    said = offsets_of_words(tmp_path)
    assert said == "The offset trick adds nothing to word soups: XD ours -0.10; DG ours -0.06; agrees"


def test_the_zero_shot_rows_are_named_as_the_reports_and_the_papers() -> None:
    theirs = {row.label for row in tables.rows("zero_shot") if row.row in BASELINES}
    ours = {row.plain or row.label for row in BEFORE_SOUPS if row.key in BASELINES}
    assert theirs | ours == set(claims.ZERO_SHOT)


def test_gains_of_the_papers_last_row_stand_beside_its_differences(tmp_path):
    places = {"XD mean": 1.2, "XD mean (paper)": 1.61, "XD mean (diff)": -0.41, "XD mean low": 0.4, "XD mean high": 2.0}
    row = {"method": "Word soup score mean", "over": "GPT score mean", **places, "compared by": "images"}
    other = {"method": "Word soup", "over": "GPT score mean", **places, "compared by": "images"}
    without = {"method": "Word soup score mean", "over": "Waffle CLIP", "XD mean": -0.5, "XD mean low": -1.0}
    without |= {"XD mean high": 0.0, "compared by": "counts"}
    over_gpt, over_waffle = claims.gains(write(tmp_path, "gains", [row, other, without]))
    assert over_gpt == (
        "Word soup score mean, gain over GPT score mean: XD paper +1.61, ours +1.20 [+0.40, +2.00] (compared by images)"
    )
    assert over_waffle.endswith("gain over Waffle CLIP: XD ours -0.50 [-1.00, +0.00] (compared by counts)")


def test_memory_is_told_only_where_it_was_measured(tmp_path):
    rows: list[dict[str, object]] = [{"method": "coop", "device memory, MiB": "not measured on a CPU"}]
    assert claims.less_memory(write(tmp_path, "memory", rows)) == "Less GPU memory: not measured on a CPU"
    rows += [{"method": "ce", "device memory, MiB": 4000}, {"method": "search", "device memory, MiB": 900}]
    assert claims.less_memory(write(tmp_path, "memory", rows)) == "Less GPU memory: ce 4000 MiB, search 900 MiB"


def test_the_loss_is_told_at_the_tuned_point_and_both_initialisations(tmp_path):
    """Points on the way between them are left out."""
    about = {"method": "soft", "mean": "training images"}
    points = [{**about, "line": "to B, the soup", "place": place, "error": 20.0 + 8 * place} for place in (0, 0.5, 1)]
    points += [{**about, "line": "to A, random words", "place": place, "error": 20.0 + 30 * place} for place in (0, 1)]
    path = tmp_path / "landscape_lines.json"
    path.write_text(json.dumps(points))
    assert claims.landscape(path).endswith(
        "soft, training images: tuned 20.0, B, the soup 28.0, A, random words 50.0 % wrong"
    )
    path.write_text("[]")
    assert "params.yaml has no landscape.methods" in claims.landscape(path)


def test_a_folder_without_a_run_says_what_is_missing(tmp_path):
    said = list(claims.claims(Artifacts(tmp_path)))
    assert len(said) == 17
    assert all("not known" in line for line in said)
