"""The meaning of each row of the paper's tables, written by hand from the paper, against the row of ours beside it.

Labels are those of the paper's tables (data/paper/*.csv). Their meanings come from the paper's text and, where it gives
no number, from the authors' scripts (Chris210634/word_soups, scripts/*.sh and scripts/ablations/*.sh): depth 3 of VPT
and MaPLe, ``--init_lam 8`` of KgCoOp and 1 of ProGrad, ``--adaptive_margin 0.1``, score means of ``Word Soup m = ...``
and of the model-scaling table. Where both a soup's centroids and its score mean would fit, the printed figures decide:
"Vanilla CoOp + word soup" of the diversity table is not that of the few-shot table.
"""

from __future__ import annotations

from typing import Any

import pytest
from report_made import EVALUATE, both_seeds, results

from wsoup.finetune.params import MethodParams
from wsoup.paper import tables as paper
from wsoup.pipeline.profiles.methods import methods_of
from wsoup.report.accuracy import paper_tables, zero_shot_table
from wsoup.report.labels import table
from wsoup.report.results import Results
from wsoup.report.tables import Table

METHODS = {name: MethodParams.model_validate(method) for name, method in methods_of("all").items()}
ROWS = {row.key: row for row in table(["descriptor", "word", "word_curve"])}
LAST, COOP, MAPLE = "last_blocks 3 3", "prompt 3", "maple 3 3"
CE, DIVERSE = "cross_entropy", "cross_entropy diversity 0.25 at 10"
NAME = ("class_name", "centroid")
WORD, WORD_MEAN = ("word_soup", "centroid"), ("word_soup", "score_mean")
OFFSETS = "with offsets"
Meaning = tuple[str, ...]
"""What was trained, with which loss, over which texts (absent without training); then texts and mode of evaluation."""


def plain(tune: str, loss: str = CE) -> Meaning:
    """A method trained and evaluated with the class name alone."""
    return (tune, loss, "class_name", *NAME)


ZERO_SHOT: dict[str, Meaning] = {
    "CLIP ZS": NAME,
    "Ensemble": ("ensemble", "centroid"),
    "GPT centroids": ("gpt", "centroid"),
    "GPT score mean": ("gpt", "score_mean"),
    "Random descriptors": ("random_descriptors", "centroid"),
    "Random descriptors + offset trick": ("random_descriptors", "centroid", OFFSETS),
    "Waffle CLIP": ("waffle", "centroid"),
    "Waffle CLIP + offset trick": ("waffle", "centroid", OFFSETS),
    "Descriptor soup": ("descriptor_soup", "centroid"),
    "Descriptor soup + offset trick": ("descriptor_soup", "centroid", OFFSETS),
    "Word soup": WORD,
    "Word soup score mean": WORD_MEAN,
}
SCALING: dict[str, Meaning] = {
    "ZS": NAME,
    "GPT score mean": ("gpt", "score_mean"),
    "Waffle CLIP": ("waffle", "centroid"),
    "Desc. soup + offsets": ("descriptor_soup", "centroid", OFFSETS),
    "Word soup": WORD_MEAN,
}
ON_CE = {
    "GPT score mean": ("gpt", "score_mean"),
    "Random descriptors": ("random_descriptors", "centroid"),
    "Waffle CLIP": ("waffle", "centroid"),
    "Descriptor soup": ("descriptor_soup", "centroid"),
    "Descriptor soup + offset trick": ("descriptor_soup", "centroid", OFFSETS),
    "Descriptor soup upper bound": ("upper_bound", "centroid"),
}
FEW_SHOT: dict[str, Meaning] = {
    "CLIP ZS": NAME,
    "Cross Entropy (CE)": plain(LAST),
    **{f"Cross Entropy (CE) + {label}": (LAST, CE, "class_name", *texts) for label, texts in ON_CE.items()},
    "Cross Entropy (CE) + Word soup centroids": (LAST, DIVERSE, "word", *WORD),
    "Cross Entropy (CE) + Word soup score mean": (LAST, DIVERSE, "word", *WORD_MEAN),
    "ProGrad": plain(COOP, "prograd 1"),
    "KgCoOp": plain(COOP, "kgcoop 8"),
    "ProDA": plain("soft_descriptors 32 10 3", "proda"),
    "Vanilla CoOp": plain(COOP),
    "Vanilla CoOp + Word soup score mean": (COOP, DIVERSE, "word", *WORD_MEAN),
    "Vanilla MaPLe": plain(MAPLE),
    "Vanilla MaPLe + Word soup score mean": (MAPLE, DIVERSE, "word", *WORD_MEAN),
    "Vanilla CLIPood": plain(LAST, f"{CE} margin 0.1"),
    "Vanilla CLIPood + Word soup score mean": (LAST, f"{DIVERSE} margin 0.1", "word", *WORD_MEAN),
}
DIVERSITY: dict[str, Meaning] = {
    "CLIP ZS": NAME,
    "Vanilla CoOp": plain(COOP),
    "Vanilla CoOp + word soup": (COOP, CE, "class_name", *WORD),
    "CoOp ensemble": plain("soft_descriptors 8 10 0"),
    "CoOp regularized towards initialization": plain(COOP, DIVERSE),
    "CoOp regularized towards initialization + word soup": (COOP, DIVERSE, "class_name", *WORD),
    "CoOp with label smoothing": plain(COOP, f"{CE} smoothing 0.25"),
    "CoOp with label smoothing + word soup": (COOP, f"{CE} smoothing 0.25", "class_name", *WORD),
    "CoOp + word soup (lambda=0)": (COOP, CE, "word", *WORD),
    "CoOp + word soup + diversity loss (lambda=0.25)": (COOP, DIVERSE, "word", *WORD),
}
LAION: dict[str, Meaning] = {
    "CLIP ZS": NAME,
    "Word soup": WORD,
    "Vanilla CoOp": plain(COOP),
    "Vanilla CoOp + Word soup": (COOP, DIVERSE, "word", *WORD),
}
LAYERS = {1: "last layer", 2: "last 2 layers", 3: "last 3 layers"}
TOKENS = {1: "1 token", 2: "2 tokens", 3: "3 tokens"}
EFFICIENCY: dict[str, Meaning] = {
    **{f"VPT shallow {label}": plain(f"visual_prompt {n} 1") for n, label in TOKENS.items()},
    "VPT deep 2 layers": plain("visual_prompt 2 3"),
    "VPT deep 3 layers": plain("visual_prompt 3 3"),
    "MaPLe 1 layer": plain("maple 1 3"),
    "MaPLe 2 layers": plain("maple 2 3"),
    "MaPLe 3 layers": plain(MAPLE),
    **{f"bitfit {label}": plain(f"bitfit {n}") for n, label in LAYERS.items()},
    **{f"CoOp {label}": plain(f"prompt {n}") for n, label in TOKENS.items()},
    **{f"ProGrad {label}": plain(f"prompt {n}", "prograd 1") for n, label in TOKENS.items()},
    **{f"KgCoOp {label}": plain(f"prompt {n}", "kgcoop 8") for n, label in TOKENS.items()},
    **{f"ProDA ensemble size {m}": plain(f"soft_descriptors {m} 10 3", "proda") for m in (4, 8, 16, 32, 64)},
    **{f"CLIP-adapter reduction={r}": plain(f"image_adapter {r}") for r in (128, 64, 32, 16, 8, 4)},
    **{f"SSF {label}": plain(f"ssf {n}") for n, label in LAYERS.items()},
    **{f"LoRA rank={r}": plain(f"lora 3 {r}") for r in (1, 2, 4, 8)},
    **{f"ResBlock-adapter reduction={r}": plain(f"adapter 3 {r}") for r in (128, 64, 32, 16, 8, 4)},
    **{f"Word Soup m={m}": ("word_curve_soup", "score_mean", f"m={m}") for m in (1, 2, 4, 8, 16, 32, 64)},
    "Word Soup + CoOp m=4": (COOP, DIVERSE, "word first 4", *WORD, "m=4"),
    "Word Soup + CoOp m=8": (COOP, DIVERSE, "word", *WORD),
    "Word Soup + CoOp m=16": (COOP, DIVERSE, "word_curve first 16", "word_curve_soup", "centroid", "m=16"),
}
SIZES = ("blocks", "members", "tokens", "depth", "rank", "reduction", "prompt_tokens")
LOSS = {"label_smoothing": "smoothing", "weight": "", "margin": "margin"}


def meaning(variant: str, key: str) -> Meaning:
    """The meaning of a row of ours, from methods.yaml and the list of rows."""
    name, _, m = key.partition("@")
    row = ROWS[name]
    used = (row.method.name, row.mode, *([OFFSETS] if row.offsets else []), *([f"m={m}"] if m else []))
    return used if variant == "pretrained" else (*trained(METHODS[variant]), *used)


def trained(method: MethodParams) -> Meaning:
    tune = method.tune.model_dump()
    sizes = [
        str(tune[size]) for size in SIZES if size in tune and (tune["kind"], size) != ("soft_descriptors", "blocks")
    ]
    loss: dict[str, Any] = method.loss.model_dump(by_alias=True)
    parts = [loss["kind"]]
    if loss.get("lambda"):
        parts.append(f"diversity {loss['lambda']:g} at {loss['teacher_logit_scale']:g}")
    parts += [f"{word} {loss[key]:g}".strip() for key, word in LOSS.items() if loss.get(key)]
    over = method.soup if method.members is None else f"{method.soup} first {method.members}"
    return " ".join([tune["kind"], *sizes]), " ".join(parts), over


TABLES = {
    "zero_shot": ZERO_SHOT, "few_shot": FEW_SHOT, "diversity_ablation": DIVERSITY, "parameter_efficiency": EFFICIENCY,
    "laion_source": LAION,
}  # fmt: skip


@pytest.mark.parametrize(("name", "theirs"), TABLES.items())
def test_each_row_means_what_the_papers_row_means(name, theirs):
    ours = [(row.label, meaning(row.variant, row.row)) for row in paper.rows(name) if row.row]
    if name == "parameter_efficiency":  # its second "VPT shallow 3 tokens" is one deep token in the authors' scripts
        assert ours.pop(3) == ("VPT shallow 3 tokens", plain("visual_prompt 1 3"))
    assert ours == [(label, theirs[label]) for label, _ in ours]
    assert len(ours) == len(theirs)


def test_each_row_of_the_scaling_table_means_what_the_papers_row_means():
    rows = paper.rows("model_scaling")
    assert [(row.variant, row.label.split(": ")[1]) for row in rows] == 4 * [("pretrained", label) for label in SCALING]
    assert [meaning(row.variant, row.row) for row in rows] == 4 * list(SCALING.values())


def run_of(name: str, *, source: str = "imagenet", **about: Any) -> tuple[Results, dict[tuple[str, str], int]]:
    """Results with every row of one of the paper's tables, and the correct images of each row, all different."""
    pairs = list(dict.fromkeys((row.variant, row.row) for row in paper.rows(name) if row.row))
    roles, lines = {source: "source", "dtd": "xd", "imagenet_a": "dg"}, []
    for right, (variant, key) in enumerate(pairs):
        row, _, m = key.partition("@")
        drawn = EVALUATE.baseline_m if variant == "pretrained" else EVALUATE.tuned_baseline_m
        size = int(m) if m else drawn if ROWS[row].method.drawn else 99
        values = {"variant": variant, "mode": ROWS[row].mode, "offsets": 1 + ROWS[row].offsets, "m": size}
        lines += both_seeds(ROWS[row].method.name, dict.fromkeys(roles, (right, right)), **values)
    run = results(lines, roles=roles, parameters=dict.fromkeys({variant for variant, _ in pairs}, 1), **about)
    return run, {pair: right for right, pair in enumerate(pairs)}


def printed(table: Table, *, columns: dict[str, str]) -> list[tuple[str, str, tuple[float, ...], int]]:
    """(variant, row, the paper's figures, ours) of every line with figures of the paper."""
    return [
        (line["variant"], line["row"], tuple(line[f"{column} (paper)"] for column in columns), round(line["dtd"]))
        for line in table.rows
        if "dtd (paper)" in line
    ]


COLUMNS = {"dtd": "DTD", "imagenet_a": "INet-A"}


@pytest.mark.parametrize("name", [name for name in TABLES if name != "zero_shot"])
def test_tables_of_finetuned_models_show_these_rows_beside_the_papers(name):
    run, rights = run_of(name, source="laion" if name == "laion_source" else "imagenet")
    shown = next(table for table in paper_tables(run) if table.name == name)
    rows = [row for row in paper.rows(name) if row.row]
    assert [line["method"] for line in shown.rows] == [row.label for row in rows]
    assert printed(shown, columns=COLUMNS) == [
        (
            row.variant,
            row.row.partition("@")[0],
            tuple(row.figures[c] for c in COLUMNS.values()),
            rights[row.variant, row.row],
        )
        for row in rows
    ]


@pytest.mark.parametrize("encoder", [("ViT-B-16", "openai"), *paper.SCALING_ENCODERS])
def test_each_models_table_shows_these_rows_beside_the_papers(encoder):
    """Rows with the same figures are recognised by the paper's labels."""
    name, theirs = ("zero_shot", ZERO_SHOT) if encoder == ("ViT-B-16", "openai") else ("model_scaling", SCALING)
    about = {"model": encoder[0], "pretrained": encoder[1], "quick_gelu": encoder[1] == "openai"}
    run, rights = run_of(name, encoder=about)
    lines = printed(zero_shot_table(run), columns=COLUMNS)
    expected = {
        (*theirs[line["method"]], *(float(line[column]) for column in COLUMNS.values()))
        for line in paper.table_rows(name)
        if line.get("model") == paper.SCALING_ENCODERS.get(encoder)
    }
    assert {(*meaning(variant, row), *figures) for variant, row, figures, _ in lines} == expected
    assert [ours for *_, ours in lines] == [rights[variant, row] for variant, row, *_ in lines]
    assert len(lines) == len(theirs)
