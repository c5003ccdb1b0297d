"""Faults of params.yaml as a whole, found before any stage runs: files that DVC does not watch, pools too small."""

from __future__ import annotations

import copy
import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from half_done import unread_keys
from project import miniature_params
from small_world import COLOURS, write_image_folder
from yaml_in_c import safe_load

from wsoup.base.errors import LONGEST, ParamsError
from wsoup.finetune.loss_params import ProgradLoss
from wsoup.finetune.tune_params import LastBlocksTune
from wsoup.params.section import Section
from wsoup.pipeline.params import Params, parse_params
from wsoup.pipeline.profiles.demo import demo
from wsoup.pipeline.profiles.own import own
from wsoup.pipeline.profiles.paper import Paper
from wsoup.pipeline.profiles.templates import FOLDER, template
from wsoup.search.grow.greedy import GreedySoup

WITHOUT = Paper("/data").text()

ROOT = Path(__file__).parents[2]
docs = SimpleNamespace(**runpy.run_path(str(ROOT / "docs/make_params.py")))
RAW = safe_load((ROOT / "params.yaml").read_text())


def changed(**values: Any) -> dict[str, Any]:
    """The project's params with some keys set; ``__`` stands for a dot."""
    raw = copy.deepcopy(RAW)
    for where, value in values.items():
        *sections, key = where.split("__")
        section = raw
        for name in sections:
            section = section[name]
        section[key] = value
    return raw


def refusal(**values: Any) -> str:
    with pytest.raises(ParamsError) as error:
        parse_params(changed(**values), origin="params.yaml")
    text = str(error.value)
    assert text.startswith("params.yaml: ")
    assert len(text) <= LONGEST
    assert text.isprintable()
    return text


# --------------------------------------------------------------------------------------------- what DVC watches


def test_the_project_and_its_profiles_watch_what_they_read(in_tmp: Path) -> None:
    texts = [template("demo"), demo("all"), WITHOUT, Paper("/data", gpt_descriptors="/gpt", methods="all").text()]
    for raw in (*map(safe_load, texts), miniature_params(RAW["encoder"])):
        parse_params(raw, origin="params.yaml")


WORDS = {"path": "words.txt", "count": 1000, "period": False, "watch": "words.txt"}


@pytest.mark.parametrize(
    ("values", "key", "watch", "uncovered", "n_files"),
    [
        (
            {"candidates__descriptors": {"paths": ["a/x.txt", "b/y.txt"], "period": False}, "candidates__watch": "a"},
            *("candidates.watch", "a", "'b/y.txt' (candidates.descriptors.paths[1])", 2),
        ),
        (
            {"candidates__words": WORDS | {"watch": "data/nothing_to_watch.txt"}},
            *("candidates.words.watch", "data/nothing_to_watch.txt", "'words.txt' (candidates.words.path)", 1),
        ),
        (
            {"datasets__counts__gpt_descriptors": "data/gpt/counts.json"},
            *("candidates.watch", "data/toy/", "'data/gpt/counts.json' (datasets.counts.gpt_descriptors)", 2),
        ),
        *(
            ({"encoder__watch": watch}, "encoder.watch", watch, "'data/toy/encoder/", 2)
            for watch in ("data/nothing_to_watch.txt", "data/toy/encoder/toy-clip.json", "data/toy/enc")
        ),
    ],
)
def test_a_file_that_is_not_watched_is_named_with_the_next_step(
    values: dict[str, Any], key: str, watch: str, uncovered: str, n_files: int
) -> None:
    parse_params(changed(candidates__words=WORDS), origin="params.yaml")
    message = refusal(**values)
    assert f"{key}: '{watch}" in message
    assert f"does not cover {uncovered}" in message
    step = f"put the {n_files} files of its section into a folder without results, and set {key} to that"
    assert message.endswith(step if n_files > 1 else f"set {key} to words.txt")


def test_a_tag_needs_no_watch_and_a_config_needs_itself() -> None:
    tag = {"encoder__model": "ViT-B-32", "encoder__pretrained": "openai"}
    nothing = "data/nothing_to_watch.txt"
    parse_params(changed(**tag, encoder__config=None, encoder__watch=nothing), origin="params.yaml")
    config = "configs/mine.json"
    assert refusal(**tag, encoder__config=config, encoder__watch=nothing).endswith(f"set encoder.watch to {config}")
    parse_params(changed(**tag, encoder__config=config, encoder__watch=config), origin="params.yaml")


def test_links_and_relative_paths_are_followed(in_tmp: Path) -> None:
    for folder in ("real", "named"):
        (in_tmp / folder).mkdir()
    (in_tmp / "link").symlink_to(in_tmp / "real")
    (in_tmp / "named/pool.txt").symlink_to(in_tmp / "real/pool.txt")

    def parsed(path: str, watch: str) -> Params:
        pool = {"candidates__descriptors": {"paths": [path], "period": False}, "candidates__watch": watch}
        return parse_params(changed(**pool), origin="params.yaml")

    for path, watch in [
        ("link/pool.txt", "real"),
        ("real/pool.txt", "link"),
        ("real/../real/pool.txt", "./real/"),
        (str(in_tmp / "real/pool.txt"), "real"),
        ("named/pool.txt", "named"),  # DVC hashes what a link to a file leads to
        ("named/pool.txt", "real"),
    ]:
        parsed(path, watch)
    (in_tmp / "named/deep").symlink_to(in_tmp / "real")
    for path, watch in [("named/deep/pool.txt", "named"), ("realm/pool.txt", "real"), ("real/pool.txt", "real/poo")]:
        with pytest.raises(ParamsError, match="does not cover"):
            parsed(path, watch)
    with pytest.raises(
        ParamsError,
        match=r"candidates.watch: '\.' contains the whole run, results included; set candidates.watch to pool",
    ):
        parsed("pool.txt", ".")


def test_a_local_config_is_watched_even_with_a_tag(tmp_path: Path) -> None:
    root = write_image_folder(tmp_path / "set", splits={"train": 2, "test": 1}, classes=COLOURS)
    config, apart = tmp_path / "configs/tiny-clip.json", tmp_path / "elsewhere.safetensors"
    config.parent.mkdir()
    config.write_text("{}")
    raw = safe_load(own(str(root), encoder={"model": "tiny-clip", "pretrained": "openai"})[0])
    raw["encoder"] |= {"config": str(config), "watch": str(config)}
    parse_params(raw, origin="params.yaml")
    apart.touch()
    raw["encoder"] |= {"watch": str(apart), "pretrained": str(apart)}
    with pytest.raises(ParamsError, match=r"encoder.watch: .* does not cover .*tiny-clip.json' \(encoder.config\)"):
        parse_params(raw, origin="params.yaml")


# -------------------------------------------------------------------------------------------------- pools, lines


@pytest.mark.parametrize("room", ["params", "search", "finetune", "heads", "evaluate", "pipeline"])
def test_every_key_is_read(room: str) -> None:
    """One that is only declared would change nothing, without a word."""
    assert not unread_keys(room), "\n".join(unread_keys(room))


def test_a_typo_in_a_union_is_answered_with_the_keys_of_its_kind() -> None:
    def known(model: type[Section]) -> str:
        return f"known keys here: {', '.join(model.model_fields)}"

    tune = {"kind": "last_blocks", "blocks": 2, "prompt_tokens": 3}
    message = refusal(finetune__methods__coop__tune=tune | {"promt_tokens": 3})
    assert message.endswith("promt_tokens'; did you mean 'prompt_tokens'?")
    message = refusal(finetune__methods__coop__tune=tune | {"zzz": 1})
    assert message.endswith(known(LastBlocksTune))
    message = refusal(finetune__methods__coop__loss={"kind": "prograd", "weight": 1.0, "zzz": 1})
    assert message.endswith(known(ProgradLoss))
    message = refusal(soups__descriptor={"kind": "greedy", "pool": "descriptors", "m": 3, "zzz": 1})
    assert message.endswith(known(GreedySoup))


def test_a_pool_without_files_is_refused_where_texts_are_taken_from_it() -> None:
    """Of the pool of descriptors nobody need take any."""
    none = {"paths": [], "period": True}
    pools = [*RAW["candidates"]["pools"], "facts"]
    message = refusal(candidates__pools=pools, candidates__facts=none)
    assert message.endswith("candidates: facts.paths is []; name a file of texts there, or take facts out of pools")
    message = refusal(candidates__descriptors=none)
    assert message.endswith(
        "soups.descriptor: its pool is descriptors, and candidates.descriptors.paths is []; name a file of texts "
        "there, or take the soup out"
    )
    of_words = {name: soup for name, soup in RAW["soups"].items() if soup["pool"] != "descriptors"}
    methods = {name: method for name, method in RAW["finetune"]["methods"].items() if method["soup"] != "descriptor"}
    parse_params(changed(candidates__descriptors=none, soups=of_words, finetune__methods=methods), origin="params.yaml")


def test_templates_are_refused_where_words_follow_a_class_name_or_are_learnt() -> None:
    """A prompt learns the first tokens of a text, which of a template may be its own words or the class name."""
    message = refusal(soups__word=RAW["soups"]["word"] | {"pool": "templates"})
    assert "soups.word: its pool holds templates, and a template is a whole prompt that no word can follow" in message
    message = refusal(finetune__methods__coop__soup="templates")
    assert "finetune.methods.coop.soup: the members of templates are templates, and tune.kind prompt learns" in message
    bitfit = RAW["finetune"]["methods"]["coop"] | {"soup": "templates", "tune": {"kind": "bitfit", "blocks": 1}}
    parse_params(changed(finetune__methods__coop=bitfit), origin="params.yaml")


def test_what_would_never_be_trained_is_refused() -> None:
    """By the whole of params.yaml, which every stage reads before it begins: it depends on what methods share."""
    norms = {"kind": "block_norms", "first_stage": 0.6}
    coop = RAW["finetune"]["methods"]["coop"] | {"tune": norms, "soup": "class_name", "loss": {"kind": "cross_entropy"}}
    parse_params(changed(finetune__methods__coop=coop), origin="params.yaml")
    message = refusal(finetune__methods__coop=coop, finetune__iterations=1)
    assert message.startswith("params.yaml: finetune.methods.coop.tune.first_stage: 0.6 of 1 iteration (finetune.iter")
    message = refusal(finetune__methods__coop__select={"learning_rate": [0.1, 0.2]}, fewshot__shots=1)
    assert message.startswith("params.yaml: finetune.methods.coop.select: half of each class's few-shot images")


def test_files_of_templates_and_pairs_are_watched() -> None:
    for key in ("evaluate__templates__mine", "datasets__counts__templates", "datasets__counts__names"):
        sentences = {"datasets__counts__sentences": RAW["candidates"]["watch"]}
        assert f"does not cover 'README.md' ({key.replace('__', '.')})" in refusal(**sentences, **{key: "README.md"})


def test_names_of_keys_without_a_file_that_has_them_are_refused() -> None:
    assert "names: 'a.txt' names keys of gpt_descriptors or sentences, and neither" in refusal(
        datasets__counts={"role": "xd", "watch": "data", "template": "a {}", "names": "a.txt"}
    )


def test_a_misspelt_list_of_templates_is_answered_with_the_lists() -> None:
    message = refusal(evaluate__templates__mine="openai8")
    assert "evaluate.templates.mine: there is no list or file 'openai8'; expected a file under" in message
    assert message.endswith("or a list under its own name: openai80, openai7, simple")


def test_many_problems_are_counted_and_long_values_shortened() -> None:
    message = refusal(**{f"zzz{i}": i for i in range(200)})
    assert "unknown key 'zzz0'" in message
    assert message.endswith("; and 197 more")
    for value in ("x" * 5000, ["x" * 5000] * 5000, {"x" * 5000: 1}, "a\nb\u2028c\x1b[31m"):
        assert "fewshot.shots: " in refusal(fewshot__shots=value)
    assert "unknown key" in refusal(**{"x" * 5000: 1})
    assert "holds a seed twice" in refusal(seeds=[1] * 50)


# ---------------------------------------------------------------------------------------------------- the schema


def test_the_schema_is_up_to_date_and_explains_every_key() -> None:
    text = docs.SCHEMA.read_text()
    assert text == docs.schema(), "run `python docs/make_params.py`"
    assert docs.SOUP_SCHEMA.read_text() == docs.soup_schema(), "run `python docs/make_params.py`"
    root = json.loads(text)
    sections = {"Params": root, **root["$defs"]}
    unexplained = [
        f"{name}.{key}"
        for name, section in sections.items()
        for key, about in section["properties"].items()
        if "description" not in about and key != "kind"  # what a kind is, its section says
    ]
    assert unexplained == []
    assert all(section.get("description") for section in sections.values())
    assert "lambda" in sections["CrossEntropyLoss"]["properties"]


def test_params_and_profiles_name_the_schema_in_their_first_line(in_tmp: Path) -> None:
    """Relative to the file itself, as editors look for it; what is printed is for the top of a project."""
    texts = {path: path.read_text() for path in (ROOT / "params.yaml", *FOLDER.glob("*.yaml"))}
    texts |= {ROOT / "demo": demo("all"), ROOT / "paper": WITHOUT}
    for path, text in texts.items():
        first, second, *_ = text.splitlines()
        place = first.removeprefix("# yaml-language-server: $schema=")
        assert (path.parent / place).resolve() == docs.SCHEMA
        assert second.startswith("# ")
        assert text.count("yaml-language-server") == 1


def test_the_reference_is_up_to_date_and_has_every_key() -> None:
    text = docs.PAGE.read_text(encoding="utf-8")
    assert text == docs.markdown(json.loads(docs.schema())), "run `python docs/make_params.py`"
    keys = set(re.findall(r"^\| `([^`]+)`", text, flags=re.MULTILINE))
    expected = set(_keys(RAW, prefix=""))
    assert {key for key in expected if key not in keys and not key.endswith(".kind")} == set()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [line for line in rows if line.endswith(("|  |", "| |"))] == []  # each has a description


def _keys(value: Any, *, prefix: str) -> Iterator[str]:
    """Keys of a params.yaml as the reference writes them: names become <name>."""
    named = prefix in ("datasets.", "soups.", "finetune.methods.", "heads.", "evaluate.templates.")
    for key, inner in value.items():
        place = f"{prefix}{'<name>' if named else key}"
        if place == "candidates.templates":  # a pool of one's own has the keys of descriptors
            place = "candidates.descriptors"
        if isinstance(inner, dict):
            yield from _keys(inner, prefix=f"{place}.")
        else:
            yield place


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ({"coop": {"kind": "ridge", "soup": "word"}}, "heads: 'coop' is also a name under finetune.methods"),
        (
            {"mine": {"kind": "ridge", "soup": "none"}},
            "heads.mine.soup: 'none' is not among the soups; there are class_name, ",
        ),
        ({"pretrained": {"kind": "ridge", "soup": "word"}}, "heads: the name 'pretrained' is taken by wsoup itself"),
        ({"mine": {"kind": "svm", "soup": "word"}}, "heads.mine.kind: 'svm' is not valid"),
    ],
)
def test_heads_have_names_and_kinds_of_their_own(heads: dict[str, Any], message: str) -> None:
    assert message in refusal(heads=heads)


def test_names_that_would_share_files_are_refused() -> None:
    soup, dataset = RAW["soups"]["word"], next(iter(RAW["datasets"].values())) | {"role": "xd"}
    shared = "differ by case alone, and would share files; rename one"
    assert "soups: the name 'word-seed1' is taken by wsoup itself" in refusal(soups={"word": soup, "word-seed1": soup})
    assert f"soups: 'word' and 'Word' {shared}" in refusal(soups={"word": soup, "Word": soup})
    assert f"datasets: 'a' and 'A' {shared}" in refusal(datasets=RAW["datasets"] | {"a": dataset, "A": dataset})
    assert f"datasets: 'é' and 'e\u0301' {shared}" in refusal(
        datasets=RAW["datasets"] | {"é": dataset, "e\u0301": dataset}
    )


def test_a_role_that_others_have_is_not_the_name_of_a_dataset() -> None:
    """A table of texts has a column for each role, and one for each dataset."""
    dataset = next(iter(RAW["datasets"].values()))
    source, first = RAW["source"], RAW["datasets"][RAW["source"]]
    for role in ("xd", "dg"):
        target = dataset | {"role": role}
        message = f"datasets: the name {role!r} is a role, and 'photo' has it"
        assert message in refusal(datasets={source: first, role: target, "photo": target})
        assert message in refusal(datasets={source: first, role: dataset | {"role": "xd"}, "photo": target})
        parse_params(changed(datasets={source: first, role: target}), origin="params.yaml")
    assert "datasets: the name 'source' is a role" in refusal(
        datasets={source: first, "source": dataset | {"role": "xd"}}
    )
