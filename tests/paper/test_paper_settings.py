"""A row is marked unless every key that it depends on has the paper's value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from report_made import CLASS_NAME, PAPER_ENCODER, both_seeds, paper_settings, results

from wsoup.core.modes import MODES
from wsoup.finetune.params import FinetuneParams
from wsoup.paper.settings import Settings, dataset_differs, differing, flat, marks
from wsoup.report.accuracy import paper_tables, zero_shot_table
from wsoup.report.labels import table

PAPER = Settings.of_paper()
# The paper has no row with weighted texts, so there is nothing to compare those with.
ROWS = {row.key: row for row in table(["descriptor", "word", "word_curve"]) if row.mode in MODES}
PRETRAINED = [("pretrained", key) for key in ROWS]
TUNED = [("coop", "class_name"), ("coop_diverse", "word_soup_score_mean"), ("proda_64", "class_name")]
WORD = ["word_soup", "word_soup_score_mean", "word_soup_offsets"]
DESCRIPTOR = ["descriptor_soup", "descriptor_soup_score_mean", "descriptor_soup_offsets"]
CHAINS = ["random_chains"]  # of words, as long as the word soup's
RANDOM = ["random_descriptors", "random_descriptors_offsets"]
WAFFLE = ["waffle", "waffle_offsets"]
CURVE = ["word_curve_soup", "word_curve_soup_score_mean"]
OFFSETS = [key for key in ROWS if key.endswith("_offsets")]
DRAWN = [key for key, row in ROWS.items() if row.method.by_seed]
SOUPS = [*WORD, *DESCRIPTOR, *CURVE]
DIVERSE = "coop_diverse/word_soup_score_mean"
ALL_TUNED = ["/".join(pair) for pair in TUNED]


def marked(run: Settings) -> set[str]:
    """Marked rows: keys, or variant/key for finetuned models."""
    return {
        key if variant == "pretrained" else f"{variant}/{key}"
        for variant, key in (*PRETRAINED, *TUNED)
        if differing(run, paper=PAPER, variant=variant, row=key)
    }


CASES: list[tuple[str, Any, list[str]]] = [
    ("seeds", [1, 2], [*DRAWN, *ALL_TUNED]),
    ("fewshot.shots", 8, [*SOUPS, *CHAINS, *ALL_TUNED]),
    ("encoder.interpolation", "bicubic", [*ROWS, *ALL_TUNED]),
    ("encoder.interpolation", None, [*ROWS, *ALL_TUNED]),
    ("encoder.image_mean", [0.5, 0.5, 0.5], [*ROWS, *ALL_TUNED]),
    ("encoder.image_std", [0.5, 0.5, 0.5], [*ROWS, *ALL_TUNED]),
    ("encoder.decoding", "upright", [*ROWS, *ALL_TUNED]),
    ("encoder.precision", "bf16", [*ROWS, *ALL_TUNED]),
    ("encoder.precision", "reference", []),
    ("encoder.precision", "fp16", []),
    *((f"soups.word.{key}", 7, [*WORD, *CHAINS, DIVERSE]) for key in ("m", "k0", "k1", "patience", "max_words")),
    *((f"soups.word_curve.{key}", 7, CURVE) for key in ("m", "k0", "k1", "patience", "max_words")),
    ("soups.word.pool", "descriptors", [*WORD, *CHAINS, DIVERSE]),
    ("soups.descriptor.m", 16, DESCRIPTOR),
    ("soups.descriptor.kind", "chains", DESCRIPTOR),
    ("datasets.food101.baseline_template", None, ["ensemble", "gpt_centroids", "gpt_score_mean"]),
    ("datasets.imagenet.gpt_names.newt", "eft", ["gpt_centroids", "gpt_score_mean"]),
    ("datasets.food101.gpt_wording", "text", ["gpt_centroids", "gpt_score_mean"]),
    ("candidates.words.period", True, [*WORD, *CHAINS, *CURVE, DIVERSE]),
    ("candidates.descriptors.period", False, DESCRIPTOR),
    ("evaluate.baseline_m", 32, [*RANDOM, *WAFFLE]),
    ("evaluate.tuned_baseline_m", 16, []),
    ("evaluate.offsets", [0, 5], OFFSETS),
    ("evaluate.survey.descriptors", 400, ["upper_bound"]),
    ("evaluate.survey.m", 16, ["upper_bound"]),
    *(
        (f"finetune.{key}", value, ALL_TUNED)
        for key, value in (
            *(("iterations", 100), ("batch_size", 32), ("momentum", 0.8), ("weight_decay", 0.1), ("logit_scale", 30)),
            *(("batches", "distinct"), ("ema", 0.98), ("augment.crop", [0.9, 1.0]), ("augment.flip", False)),
        )
    ),
    *(
        (f"finetune.methods.coop_diverse.{key}", value, [DIVERSE])
        for key, value in (
            *(("tune.tokens", 2), ("loss.lambda", 0.5), ("loss.teacher_logit_scale", 30), ("learning_rate", 1.0)),
            *(("prompt_factor", 4), ("members", 4), ("iterations", 10), ("batch_size", 8), ("loss.kind", "kgcoop")),
            *(("logit_scale", 100), ("ema", 0.9), ("optimizer.kind", "adam"), ("schedule.kind", "cosine")),
        )
    ),
    ("finetune.log_every", 7, []),
    ("finetune.methods.proda_64.tune.members", 32, ["proda_64/class_name"]),
    ("finetune.methods.proda_64.batch_size", None, ["proda_64/class_name"]),
    ("datasets.imagenet.root", "/elsewhere", []),
    ("report.confidence", 0.9, []),
]


def test_each_key_marks_the_rows_that_depend_on_it():
    for key, value, rows in CASES:
        run = paper_settings(**{key.replace(".", "__"): value})
        assert marked(run) == set(rows), f"{key}={value}"
        for name in rows:
            variant, _, row = name.rpartition("/")
            marks = differing(run, paper=PAPER, variant=variant or "pretrained", row=row)
            assert all(mark.why.startswith(key) for mark in marks)


def test_every_setting_that_methods_share_is_compared_with_the_papers():
    """The paper has the default of those that data/paper/settings.yaml does not name, such as one added later."""
    shared = FinetuneParams(methods={}).model_dump(mode="json", exclude={"methods"})
    assert shared["log_every"] == PAPER.values["finetune.log_every"]
    assert flat(shared, prefix="finetune").keys() <= PAPER.values.keys()


def test_tuned_baselines_have_their_own_size():
    for key, row in (("evaluate__tuned_baseline_m", "random_descriptors"), ("evaluate__baseline_m", "waffle")):
        run = paper_settings(**{key: 5})
        found = differing(run, paper=PAPER, variant="ce", row=row)
        assert [mark.why for mark in found] == (
            ["evaluate.tuned_baseline_m: 5, the paper's 32"] if "tuned" in key else []
        )


@pytest.mark.parametrize(
    ("pool", "rows"),
    [
        ("descriptors", [*DESCRIPTOR, *RANDOM, *WAFFLE, "upper_bound"]),
        ("words", [*WORD, *CHAINS, *CURVE, *WAFFLE, DIVERSE]),
    ],
)
def test_another_pool_marks_every_row_drawn_from_it(pool: str, rows: list[str]):
    settings = paper_settings(candidates__words__path="words.txt")
    toy = {"count": 400, "digest": "0" * 16}
    others = {name: value for name, value in settings.pools.items() if name != pool}
    for pools in ({**settings.pools, pool: toy}, others):
        assert marked(replace(settings, pools=pools)) == set(rows)
    found = differing(
        replace(settings, pools={**settings.pools, pool: toy}), paper=PAPER, variant="pretrained", row="waffle"
    )
    assert [mark.why for mark in found] == [
        f"candidates.{pool}: 400 texts, not the authors' list of {PAPER.pools[pool]['count']:,}"
    ]


def test_the_authors_list_of_waffles_texts_takes_the_mark_away():
    """Whatever the pools are: no text is made of them."""
    theirs = {"count": 512, "digest": PAPER.differs["waffle"]["unless"]["waffle"]}
    for pool, same in ((theirs, True), ({**theirs, "digest": "0" * 16}, False)):
        run = Settings(paper_settings().values, {"words": {"count": 1}, "waffle": pool})
        why = marks(run, paper=PAPER, encoder=PAPER_ENCODER, variant="pretrained", row="waffle_offsets")
        assert (why == []) is same
        assert any(mark.why.startswith("Waffle: ") for mark in why) is not same


def test_another_template_or_class_names_of_the_source_mark_soups_and_tuned_rows():
    for key, value in (("template", "a {}."), ("class_names", "names.txt")):
        run = paper_settings(**{f"datasets__imagenet__{key}": value})
        assert marked(run) == {*SOUPS, *CHAINS, *ALL_TUNED}
        assert list(dataset_differs(run, "imagenet"))
    test_split = paper_settings(datasets__imagenet__test_split="val")
    assert marked(test_split) == set()
    (mark,) = dataset_differs(test_split, "imagenet")
    assert mark.why == "imagenet: test_split: val, the paper's is test"
    assert not list(dataset_differs(paper_settings(), "eurosat"))


def test_a_method_that_is_not_the_papers_is_marked():
    (mark,) = differing(paper_settings(), paper=PAPER, variant="mine", row="class_name")
    assert mark.why == "finetune.methods.mine: the paper has no such method"


def test_tables_and_terminal_name_the_keys_that_differ():
    lines = both_seeds("class_name", CLASS_NAME) + both_seeds("word_soup", CLASS_NAME, mode="score_mean", m=64)
    lines += both_seeds("class_name", CLASS_NAME, variant="coop", stored=0)
    clean = results(lines, parameters={"coop": 1536})
    assert "*" not in "".join(zero_shot_table(clean).notes)
    changed = paper_settings(soups__word__m=64, finetune__methods__coop__learning_rate=0.5)
    run = results(lines, parameters={"coop": 1536}, settings=changed)
    shown = zero_shot_table(run)
    assert shown.rows[1]["imagenet (mark)"] == "*"
    assert "imagenet (mark)" not in shown.rows[0]
    assert "* not comparable with the paper's: soups.word.m: 64, the paper's 8." in shown.notes
    few_shot = paper_tables(run)[0]
    assert few_shot.rows[1]["imagenet (mark)"] == "*"
    assert (
        "* not comparable with the paper's: finetune.methods.coop.learning_rate: 0.5, the paper's 8e-05."
        in few_shot.notes
    )
