"""docs/differences.md, line by line: each has a test that reads a default or runs a function, and marks its rows."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from project import ROOT

from wsoup.check import paper_search
from wsoup.check.whole import Params, parse_params
from wsoup.core import prompts
from wsoup.core.draws import member_generator
from wsoup.core.scoring import mean_cosines
from wsoup.evaluate import baselines, counts, transfer
from wsoup.evaluate.rows import Material
from wsoup.finetune import tuners
from wsoup.finetune.data import batch_positions
from wsoup.finetune.params import BlocksTune
from wsoup.images.decode import load_rgb
from wsoup.params.inputs import EncoderParams
from wsoup.profiles.paper import ENCODERS, paper
from wsoup.report import paper as theirs
from wsoup.report.coverage import coverage
from wsoup.report.labels import soup_rows, table
from wsoup.report.settings import Settings, differing
from wsoup.search.grow.chains import word_chain, word_soup_member
from wsoup.search.rank import gpt, pools
from wsoup.search.rank.ranking import rank
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import forced_quick_gelu

DOC = (ROOT / "docs/differences.md").read_text(encoding="utf-8")
LINES = [" ".join(text.split()) for text in re.split(r"(?m)^(?:## .*\n\n)?- (?!\*)", DOC)[1:]]
REFERENCE = ROOT.parent / "shared/reference"
CLAIMS: dict[str, str] = {}


def claim(*beginnings: str) -> Callable[[Any], Any]:
    """Register the lines, by their beginnings, that a test checks."""

    def register(test: Any) -> Any:
        CLAIMS.update(dict.fromkeys(beginnings, test.__name__))
        return test

    return register


@cache
def params_of(**choices: Any) -> Params:
    options = {"gpt_descriptors": "/gpt", "methods": "all", **choices}
    return parse_params(yaml.safe_load(paper("/data", **options)), origin="paper")


def settings_of(**choices: Any) -> Settings:
    """Settings of a run with the authors' pools."""
    sections = params_of(**choices).model_dump(mode="json", by_alias=True)
    return Settings.of_run(sections, pools=Settings.of_paper().pools)


def beside(table_name: str) -> dict[str, list[tuple[str, str]]]:
    """The paper's row -> our (variant, row) pairs."""
    pairs: dict[str, list[tuple[str, str]]] = {}
    for label, variant, row, _ in theirs.matched_rows(table_name):
        pairs.setdefault(label, []).append((variant, row))
    return pairs


def test_every_line_has_a_test_and_every_test_a_line():
    untested = [line for line in LINES if not any(line.startswith(beginning) for beginning in CLAIMS)]
    assert untested == []
    assert [beginning for beginning in CLAIMS if not any(line.startswith(beginning) for line in LINES)] == []


def effects(line: str) -> dict[str, list[str]]:
    """A line's effect on rows, from its brackets: {"same": []}, {"key": [...], "marked": [...]}."""
    parts = re.search(r"\[([^]]+)\]\s*$", line.split(" ## ")[0])
    assert parts is not None, line
    return {kind: names for kind, *names in (part.split() for part in parts[1].split(";"))}


def marks_of(run: Settings) -> Iterator[str]:
    """Marks, by the run's settings, of all our rows beside one of the paper's."""
    keys = {row.key: row for row in table(["descriptor", "word", "word_curve"])}
    rows = [
        (variant, row.partition("@")[0]) for name in theirs.TABLES for _, variant, row, _ in theirs.matched_rows(name)
    ]
    fixed = Settings.of_paper()
    for variant, row in dict.fromkeys(rows):
        yield from differing(run, paper=fixed, variant=variant, row=keys[row])


def test_every_row_that_a_line_affects_is_marked():
    """A named difference always marks its rows; a key marks them at any value but profile paper's."""
    lines = [effects(line) for line in LINES]
    assert {kind for line in lines for kind in line} == {"same", "chance", "key", "marked"}
    assert {name for line in lines for name in line.get("marked", ())} == set(Settings.of_paper().differs)
    run = settings_of(fewshot_pickles="/p")
    assert not list(marks_of(run))
    for key in (key for line in lines for key in line.get("key", ())):
        assert any(mark.startswith(key) for mark in marks_of(changed(run, key))), key


def changed(run: Settings, key: str) -> Settings:
    """The run with another value of a key, or of the first key below it, or with another pool."""
    pool = key.removeprefix("candidates.")
    if pool in run.pools:
        return replace(run, pools={**run.pools, pool: {"count": 3, "digest": "0" * 16}})
    other = None if key.endswith("fewshot_pickles") else "another"
    return replace(run, values={**run.values, [*run.below(key), key][0]: other})


@pytest.mark.parametrize("name", Settings.of_paper().differs)
def test_rows_that_are_another_computation_are_always_marked(name):
    """In the list of every profile, even if nothing in params.yaml differs."""
    about = Settings.of_paper().differs[name]
    models = [
        model for model in ENCODERS if any(fnmatch(model, pattern) for pattern in about.get("encoders", ["ViT-B-16"]))
    ]
    filled = [row for model in models for row in coverage(params_of(encoder=model), table="all") if not row.missing]
    touched = [
        row
        for row in filled
        if any(fnmatch(row.variant, pattern) for pattern in about.get("variants", "*"))
        and any(fnmatch(row.row, pattern) for pattern in about.get("rows", "*"))
    ]
    assert touched
    assert all((about["why"] in row.marks) == ("column" not in about) for row in touched)


# ---------------------------------------------------------------------------------------------------------- search


@claim("Every draw comes from a generator named by")
def test_draws_are_named():
    ranked = [f"w{i}" for i in range(40)]

    def member_text(member: int) -> str:
        count = lambda texts: np.array([len(text.split()) for text in texts])  # noqa: E731
        soup_member = word_soup_member(
            ranked, member=member, seed=1, k0=10, k1=40, patience=9, max_words=4, count=count
        )  # fmt: skip
        return soup_member.text

    assert [member_text(i) for i in range(3)] == [member_text(i) for i in reversed(range(3))][::-1]
    assert member_text(0) != member_text(1)
    draws = [member_generator(purpose=p, seed=s, member=m).random() for p in "ab" for s in (1, 2) for m in (0, 1)]
    assert len(set(draws)) == 8


@claim("Ties rank by pool order")
def test_ties():
    assert rank([3, 5, 5, 1, 3]).tolist() == [1, 2, 0, 4, 3]


@claim("Their descriptor soups of the three seeds")
def test_members_of_the_authors_descriptor_soups():
    steps = [step for step in paper_search.read_searches(ROOT / paper_search.LOG) if step.soup == "descriptor"]
    assert [max(step.step for step in steps if step.seed == seed) for seed in (1, 2, 3)] == [14, 17, 10]
    assert {row["m"] for row in theirs.read("zero_shot") if row["method"] == "Descriptor soup"} == {"16.7"}


@claim("The paper's pseudo-code forgets to raise the bar", "A chain's bar starts at its first word's own count")
def test_the_bar_starts_at_the_first_word_and_rises():
    right = {"a": 5, "a b": 4, "a c": 7, "a c d": 6, "a c e": 8}
    chain = word_chain(
        "a", candidates=list("bcde"), count=lambda t: np.array([right.get(x, 0) for x in t]), max_words=9
    )
    assert (chain.text, [step.n_correct for step in chain.trace]) == ("a c e", [5, 7, 8])
    candidates = params_of().candidates
    assert (candidates.words.period, candidates.descriptors.period) == (False, True)
    fixed = Settings.of_paper().values
    assert (fixed["candidates.words.period"], fixed["candidates.descriptors.period"]) == (False, True)
    assert "period=False" not in inspect.getsource(counts.mean_of_stems)  # evaluated texts have it


@claim("One text path: selection and evaluation", "Candidates are encoded through shared prefixes")
def test_texts_are_strings_and_shared_prefixes_change_nothing(tiny_encoder):
    texts, names = PromptEncoder.of(tiny_encoder), ["red fox", "cat"]
    assert texts.fast
    stems = prompts.stems("a photo of a {}.", names)
    ends = [prompts.ending(text, period=True) for text in ("which is red", "sharp old")]
    ((_, block),) = texts.grid_blocks(stems, ends)
    whole = [prompts.prompt("a photo of a {}.", name, text) for text in ("which is red", "sharp old") for name in names]
    assert whole[0] == "a photo of a red fox, which is red."
    torch.testing.assert_close(block.flatten(0, 1), tiny_encoder.encode_texts(whole), rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------------------------------------- images and weights


@claim("Images are resized bicubically")
def test_images(tiny_encoder, tmp_path):
    assert params_of().encoder.interpolation == "bilinear"
    assert tiny_encoder.preprocessing["interpolation"] == "bicubic"
    Image.new("RGBA", (4, 2), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    assert load_rgb(tmp_path / "clear.png").getpixel((0, 0)) == (255, 255, 255)
    turned = Image.Exif()
    turned[0x0112] = 6  # a quarter turn
    Image.new("RGB", (4, 2)).save(tmp_path / "turned.jpg", exif=turned)
    assert load_rgb(tmp_path / "turned.jpg").size == (2, 4)
    assert params_of().encoder.decoding == "stored"
    assert load_rgb(tmp_path / "turned.jpg", as_stored=True).size == (4, 2)
    assert load_rgb(tmp_path / "clear.png", as_stored=True).getpixel((0, 0)) == (0, 0, 0)


@claim("The activation is that of the weights")
def test_activation():
    def encoder(model: str, tag: str) -> EncoderParams:
        return params_of().encoder.model_copy(update={"model": model, "pretrained": tag})

    assert forced_quick_gelu(encoder("ViT-B-16", "openai"))
    assert forced_quick_gelu(encoder("ViT-B-16", "metaclip_400m"))
    assert not forced_quick_gelu(encoder("ViT-B-16-quickgelu", "openai"))  # in its own configuration
    assert not forced_quick_gelu(encoder("ViT-B-16", "laion2b_s34b_b88k"))


@claim("Neither the paper nor the authors' code")
def test_encoders_without_a_tag_are_laions():
    assert {model for model, tag in ENCODERS.items() if tag.startswith("laion2b")} == {
        *("ViT-L-14", "coca_ViT-L-14", "ViT-g-14")
    }
    assert {model for model, tag in ENCODERS.items() if tag == "openai"} == {"ViT-B-16", "ViT-B-32"}


# ----------------------------------------------------------------------------------------------------------- pools


@claim("The authors' words are", "The descriptors are theirs to the letter")
def test_pools():
    words = params_of().candidates.words
    assert (words.path, words.count) == (None, 10_000)
    assert {name: pool["count"] for name, pool in Settings.of_paper().pools.items()} == {
        "descriptors": 4227,
        "words": 9894,
    }
    if REFERENCE.is_dir():  # the repository may not contain these
        texts = pools.descriptors([REFERENCE / "gpt_descriptors/descriptors_imagenet.json"])
        assert pools.digest(texts) == Settings.of_paper().pools["descriptors"]["digest"]
        own = REFERENCE / "descriptors.txt"
        assert texts == [prompts.bare(line) for line in own.read_text(encoding="utf-8").splitlines()]


@claim("GPT wording is kept as classification-by-description's")
def test_gpt_wording(tmp_path):
    path = tmp_path / "gpt.json"
    path.write_text(json.dumps({"ant": ["antennae", "candles", "legs, wings, etc."], "bee": []}))
    descriptors = gpt.read(path)
    assert descriptors["ant"] == ["which is antennae", "which candles", "which has legs, wings, etc"]
    texts = baselines.gpt_prompts("a photo of a {}.", class_names=["ant", "bee"], descriptors=descriptors)
    assert texts[0][2] == "a photo of a ant, which has legs, wings, etc."
    assert texts[1] == ["a photo of a bee."]
    descriptors = gpt.read(path, wording="code")
    texts = baselines.gpt_prompts("a photo of a {}.", class_names=["ant", "bee"], descriptors=descriptors)
    assert (texts[0][2], texts[1]) == (
        "a photo of a ant, which has legs, wings, etc..",
        ["a photo of a bee, which has ."],
    )


@claim("The authors' GPT texts and the end")
def test_templates_and_names_of_gpt_texts():
    datasets = params_of().datasets
    assert datasets["food101"].baseline_template == "a photo of a {}, a type of food."
    assert datasets["ucf101"].baseline_template == "a photo of a {}, a type of action."
    assert datasets["imagenet"].gpt_names == {"newt": "smooth newt", "tights": "maillot"}


@claim("Token offsets follow their code", "Token offsets of CoCa and of towers off the fast path")
def test_null_tokens_come_after_the_comma(tiny_encoder):
    assert params_of().evaluate.offset_formula == Settings.of_paper().values["evaluate.offset_formula"] == "code"
    fast, plain = PromptEncoder.of(tiny_encoder), PromptEncoder.of(tiny_encoder)
    assert plain.fast
    plain._fast = None  # as for a tower off the fast path
    grid = (["a photo of a dog,"], [" which may be large."])
    wording = fast.encode_grid(*grid, token_offset=5)
    torch.testing.assert_close(plain.encode_grid(*grid, token_offset=5, offset_formula="code"), wording)
    assert not torch.allclose(fast.encode_grid(*grid, token_offset=5, offset_formula="code"), wording, atol=1e-4)


@claim("Alignment and uniformity are mean cosines")
def test_alignment_and_uniformity_by_hand():
    """One image on its own class's text (cosine 1), at a right angle to the other."""
    classes = torch.eye(2)[None]  # (1, C, D)
    sums = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    assert [float(value) for value in mean_cosines(classes, sums=sums, n_images=1)] == [1.0, 0.0]
    for source, text in (("oxford_pets", "a type of pet"), ("dtd", "a type of texture")):
        params = params_of(source=source)
        assert (params.datasets[source].template, params.evaluate.texts) == ("a photo of a {}.", [text])


@claim("Waffle's shapes come from the source's class names")
def test_waffle():
    shape = baselines.waffle_shape(["red fox", "cat"])
    texts = baselines.waffle(["hatch", "antler"], characters=list("xyz"), shape=shape, m=8, seed=1)
    assert all(text.startswith((", which has ", ", which is a")) for text in texts)
    assert prompts.prompt("a photo of a {}.", "dog", texts[0]).startswith("a photo of a dog, , which ")
    assert any(text.startswith(", which is a") for text in texts)
    fields = {field for field in Material.__dataclass_fields__ if "class_names" in field}
    assert fields == {"source_class_names"}


@claim("The upper bound maximises the mean")
def test_the_upper_bound():
    assert transfer.target_role(["source", "xd", "dg"]) == "xd"
    assert params_of().evaluate.survey.descriptors is None
    roles = [dataset.role for dataset in params_of().datasets.values()]
    assert roles.count("xd") == 10


# --------------------------------------------------------------------------------------------------- rows of tables


@claim("What the parameter-efficiency table calls")
def test_layers_and_tokens():
    rows, methods = beside("parameter_efficiency"), params_of().finetune.methods

    def tune(label: str, n: int = 0) -> tuple[int, int]:
        tuned = methods[rows[label][n][0]].tune.model_dump()
        return tuned["depth"], tuned["tokens"]

    assert tune("VPT deep 2 layers") == (3, 2)
    assert tune("MaPLe 1 layer") == (3, 1)
    assert tune("VPT shallow 3 tokens") == (1, 3)
    assert tune("VPT shallow 3 tokens", 1) == (3, 1)


@claim('"Word Soup m = ..." of the parameter-efficiency table', '"Word soup" of the model-scaling table')
def test_word_soups_of_tables():
    rows = beside("parameter_efficiency")
    assert rows["Word Soup m=64"] == [("pretrained", "word_curve_soup_score_mean@64")]
    assert rows["Word Soup + CoOp m=8"] == [("coop_diverse", "word_soup")]
    keys = {row.key: row for row in table(["word", "word_curve"])}
    assert (keys["word_soup"].mode, keys["word_curve_soup_score_mean"].mode) == ("centroid", "score_mean")
    (scaling,) = [row for row in soup_rows("word") if row.scaling]
    assert (scaling.scaling, scaling.mode, params_of().soups["word"].m) == ("Word soup", "score_mean", 8)


@claim('The paper\'s "+ Word soup" rows are')
def test_rows_with_a_word_soup_are_of_models_trained_with_the_loss():
    with_soup = [pair for label, pairs in beside("few_shot").items() if "ord soup" in label for pair in pairs]
    methods = params_of().finetune.methods
    assert with_soup
    for variant, row in with_soup:
        if variant != "pretrained":
            assert (methods[variant].loss.weight, methods[variant].soup, row.split("_")[0]) == (0.25, "word", "word")


# ------------------------------------------------------------------------------------------------------- finetuning


def student(encoder: Any, **tune: Any) -> Any:
    method = parse_params_of(tune)
    generator = torch.Generator().manual_seed(0)
    return tuners.make_student(
        encoder.model, tokenizer=encoder.tokenizer, tune=method, template="a photo of a {}.", generator=generator
    )


def parse_params_of(tune: dict[str, Any]) -> Any:
    from pydantic import TypeAdapter

    from wsoup.finetune.params import TuneParams

    return TypeAdapter(TuneParams).validate_python(tune)


@claim("Their bitfit, LoRA, SSF and adapter give")
def test_only_the_image_tower_is_tuned_and_proda_trains_its_context(tiny_encoder):
    methods = params_of().finetune.methods
    tunes = {name: method.tune for name, method in methods.items() if isinstance(method.tune, BlocksTune)}
    assert {name.split("_")[0] for name in tunes} == {"bitfit", "lora", "ssf", "adapter"}
    for name, tune in tunes.items():
        names = student(tiny_encoder, **{**tune.model_dump(), "blocks": 1}).trained_names
        assert len(names) == len(set(names)) > 0
        assert all(".visual." in trained for trained in names), name
    assert methods["proda"].tune.prompt_tokens * 512 == 1536  # type: ignore[union-attr]


@claim("Their LoRA adds to the frozen weight")
def test_a_finished_lora_is_added_once(tiny_encoder):
    assert all(method.tune.piles_up for name, method in params_of().finetune.methods.items() if "lora" in name)  # type: ignore[union-attr]
    tuned, tokens = student(tiny_encoder, kind="lora", blocks=1, rank=2), tiny_encoder.tokenizer(["a photo of a cat."])
    with torch.no_grad():
        for name, parameter in tuned.trained().items():
            if name.endswith("up"):
                parameter.add_(0.1)
        first, second = tuned.encode_text(tokens), tuned.encode_text(tokens)
        assert torch.equal(first, second)
        assert not torch.allclose(first, tiny_encoder.model.encode_text(tokens))
        torch.testing.assert_close(tuned.merge().encode_text(tokens), first, rtol=1e-5, atol=1e-6)


@claim("Their soft descriptors of ProDA")
def test_soft_descriptors_are_common_words_of_the_vocabulary(tiny_encoder):
    methods = params_of().finetune.methods
    tunes = [methods[name].tune for name in ("proda", "proda_4", "coop_ensemble")]
    assert all((tune.start, tune.tokens) == ("words", 10) for tune in tunes)  # type: ignore[union-attr]
    drawn = student(tiny_encoder, kind="soft_descriptors", members=2, tokens=10, start="words", prompt_tokens=0)
    weight = drawn.text_tower.token_embedding.weight
    tokens = [int((weight == row).all(dim=1).nonzero()[0]) for row in drawn.soft_descriptors.flatten(0, 1)]
    words = [i for i, text in sorted(tiny_encoder.tokenizer.decoder.items()) if re.fullmatch(r"[a-z]+</w>", text)]
    assert tokens[9] == tokens[19] == drawn.period
    assert {*tokens} - {drawn.period} <= {*words[: tuners.COMMON_WORDS]}


@claim('"CoOp regularized towards initialization"')
def test_the_regularised_coop_has_the_diversity_losss_numbers():
    methods = params_of().finetune.methods
    assert methods["coop_regularised"].loss == methods["coop_diverse"].loss
    assert methods["coop_regularised"].soup == "class_name"


@claim("Where a round of all classes ends")
def test_a_batch_has_each_class_once():
    assert params_of().finetune.batches == "wrapped"
    labels = np.repeat(np.arange(5), 3)
    for iteration in range(12):
        batch = labels[batch_positions(labels, batch_size=4, seed=1, iteration=iteration)]
        assert len(set(batch.tolist())) == 4


# ------------------------------------------------------------------------------------------------------------ marks


@claim("Few-shot images of ImageNet are drawn by")
def test_marks_of_few_shot_images():
    def why(**choices: Any) -> list[str]:
        run = settings_of(**choices)
        keys = {row.key: row for row in table(["word"])}
        assert differing(run, paper=Settings.of_paper(), variant="pretrained", row=keys["class_name"]) == []
        return differing(run, paper=Settings.of_paper(), variant="pretrained", row=keys["word_soup"])

    assert why(fewshot_pickles="/p") == []
    assert why() == ["datasets.imagenet.fewshot_pickles: none, the paper's are the authors' (--fewshot-pickles)"]
    assert why(source="laion", laion="/laion") == ["datasets.laion: the authors' images of LAION are not published"]


@claim("Accuracy during training is counted on")
def test_accuracy_during_training_is_off_in_the_paper():
    assert all(method.snapshots is None for method in params_of().finetune.methods.values())


def test_files_named_above_the_lines_exist():
    for path in re.findall(r"`(data/paper/|settings\.yaml|methods\.yaml)`", DOC):
        assert (ROOT / "data/paper" / Path(path).name).exists() or path == "data/paper/"
