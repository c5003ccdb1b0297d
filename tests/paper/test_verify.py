"""`wsoup verify paper`: a miniature with right and wrong answers, the authors' own logs, and which runs they fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
import typer
import yaml
from yaml_in_c import safe_load

from wsoup.base.errors import MismatchError
from wsoup.cli.verify import verify_paper
from wsoup.core.class_texts import normalize
from wsoup.core.member import Member
from wsoup.core.soup import Soup
from wsoup.datasets.paper import PAPER
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.testsets import TestSet
from wsoup.paper import verify
from wsoup.paper.coverage import of_params
from wsoup.paper.logs import Known, SearchLine, read_counts, read_searches, read_texts
from wsoup.paper.settings import Settings
from wsoup.paper.verify import Compared
from wsoup.pipeline.params import parse_params
from wsoup.pipeline.profiles.paper import Paper
from wsoup.search.rank.source import Source
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.features import ImageFeatures, read_features, write_features

NAMES = ["red cat", "blue dog", "small green bird"]
CHAIN = ["sharp", "sharp clean", "sharp clean wet"]
SOUP = ["which has claws", "which is red", "which can fly"]


@pytest.fixture
def source(tiny_encoder) -> Source:
    features = normalize(torch.randn(300, 16, generator=torch.Generator().manual_seed(0)))
    subsets = {1: torch.arange(200), 2: torch.arange(100, 300)}
    return Source(tiny_encoder, features, torch.arange(300) % 3, subsets, "a photo of a {}.", NAMES)


def right_log(source: Source) -> list[SearchLine]:
    """What the authors would have logged, by the plain way: whole prompts, one at a time."""

    def plain(texts: list[str], seed: int, end: str) -> float:
        sums = sum(source.text_encoder.encode([f"a photo of a {n}, {text}{end}" for n in NAMES]) for text in texts)
        images, labels = source.images_of(seed)
        return 100.0 * float((images @ normalize(sums).T).argmax(dim=1).eq(labels).float().mean())

    log = [SearchLine("word", 2, 0, "wet", plain(["wet"], 2, ""))]
    log += [SearchLine("word", 2, 1, text, plain([text], 2, "")) for text in CHAIN]
    return log + [
        SearchLine("descriptor", 1, int(i > 0), SOUP[i], plain(SOUP[: i + 1], 1, ".")) for i in range(len(SOUP))
    ]


def test_right_answers_agree_to_the_image_and_wrong_ones_are_found(source):
    log = right_log(source)
    assert all(line.ours == line.theirs for line in verify.score(log, source=source).values())
    wrong = [log[0]._replace(theirs=log[0].theirs + 3.0), *log[1:-1], log[-1]._replace(text="which is plain")]
    first, *others, last = verify.score(wrong, source=source).values()
    assert (first.ours - first.theirs, {line.ours - line.theirs for line in others}) == (-6, {0})
    assert last.ours != last.theirs
    elsewhere = SearchLine("word", 3, 0, "wet", 70.0)
    assert elsewhere not in verify.score([*log, elsewhere], source=source), "the run has no such seed"


def test_the_best_text_agrees_up_to_the_tolerance(tmp_path):
    for right, holds, says in (
        ({"initially": 71, "wet": 70}, True, "ours 'initially', 0 images better"),
        ({"wet": 71, "initially": 70}, True, "ours 'wet', 1 images better"),
        ({"wet": 72, "initially": 70}, True, "2 images better"),
        ({"wet": 73, "initially": 70}, False, "3 images better"),
        ({"wet": 75, "initially": 70}, False, "5 images better"),
        ({"wet": 71}, False, "not in this run's pool"),
    ):
        # Neither another seed's count nor that of the class name alone, which is no text.
        lines = {
            "text": [*right, "other", ""],
            "n_correct": [*right.values(), 99, 99],
            "seed": [3] * len(right) + [2, 3],
        }
        store.write_table(tmp_path / "scores.parquet", pa.table(lines))
        step = SearchLine("word", 3, 0, "initially", 70.125)
        agrees, sentence = verify.best_agrees(step, scores=tmp_path / "scores.parquet", within=2)
        assert agrees is holds
        assert says in sentence


def test_the_authors_logs_are_complete():
    log = read_searches()
    best = {(step.soup, step.seed): step for step in log if step.member == 0}
    assert len(best) == 4
    assert (best["word", 3].text, best["word", 3].theirs) == ("initially", 70.125)
    assert {step.text for step in log if step.text.endswith((".", " "))} == set()
    counts, texts = read_counts(), read_texts()
    assert len(counts) == 9 * 15 * 3
    assert {line.method for line in counts} == set(verify.ROWS)
    assert {line.dataset: line.n_images for line in counts} == {name: known.n_test for name, known in PAPER.items()}
    assert [len(texts["descriptor", seed]) for seed in (1, 2, 3)] == [14, 17, 10]


def test_only_the_authors_encoder_and_source_have_known_answers():
    def run(changes: dict[str, Any] | None = None, **choices: Any) -> Settings:
        pickles = choices.pop("fewshot_pickles", None)
        raw = safe_load(Paper("/data", gpt_descriptors="/gpt", **choices).text())
        raw["encoder"] |= changes or {}
        raw["datasets"][raw["source"]]["fewshot_pickles"] = pickles
        return of_params(parse_params(raw, origin="paper").model_dump(mode="json", by_alias=True))

    verify.check_is_theirs(run())
    for settings, difference in (
        (run({"model": "ViT-B-32"}), r"encoder ViT-B-32 / openai, theirs ViT-B-16 / openai\. Begin with"),
        (run({"interpolation": "bicubic"}), "encoder.interpolation: bicubic, the paper's bilinear"),
        (run({"decoding": "upright"}), "encoder.decoding: upright, the paper's stored"),
    ):
        with pytest.raises(MismatchError, match=difference):
            verify.check_is_theirs(settings)
    assert verify.search_differs(run(fewshot_pickles="/splits")) is None
    for choices, message in (
        ({}, "fewshot_pickles: none, the paper's are the authors'"),
        ({"fewshot_pickles": "/s", "source": "dtd"}, "source: dtd, the paper's imagenet"),
    ):
        assert message in str(verify.search_differs(run(**choices)))
    few = run(fewshot_pickles="/splits")
    assert "fewshot.shots: 8" in str(verify.search_differs(Settings({**few.values, "fewshot.shots": 8}, {})))


def test_offset_rows_are_counted_by_the_formula_of_params(tiny_encoder, source):
    """The centroid of every member at every offset, counted plainly."""
    text_encoder = PromptEncoder.of(tiny_encoder)
    images = source.image_features
    test = TestSet("dtd", "xd", "a photo of a {}.", NAMES, images, source.labels, np.arange(300), {})
    log = [Known("word-soup-token-offset", 1, "dtd", 290, 0)]
    evaluate = safe_load(Paper("/data").text())["evaluate"]
    ours = {}
    plain = {}
    for formula in ("wording", "code"):
        params = EvaluateParams.model_validate(evaluate | {"offsets": [0, 5], "offset_formula": formula})
        (line,) = verify.compare_counts(
            log, texts={("word", 1): CHAIN}, tests=[test], text_encoder=text_encoder, params=params
        )
        assert (line.of, line.ours_of) == (290, 300), "each side has its own number of images"
        ours[formula] = line.ours
        starts = [f"a photo of a {name}," for name in NAMES]
        ends = [f" {text}." for text in CHAIN]
        total = torch.zeros(3, 16)
        for offset in (0, 5):
            total += text_encoder.encode_grid(starts, ends, token_offset=offset, offset_formula=formula).sum(dim=0)
        plain[formula] = int((images @ normalize(total).T).argmax(dim=1).eq(source.labels).sum())
    assert ours == plain
    assert ours["wording"] != ours["code"]


def test_disagreements_name_their_usual_causes():
    for wrong, causes in (
        (["ZS", "ensemble"], ["ZS: weights, activation"]),
        (["gpt-centroids"], ["gpt-centroids: datasets.<name>.gpt_descriptors, gpt_names"]),
        (["ensemble"], ["ensemble: baseline_template of the prompt ensemble"]),
        (["word-soup-token-offset"], ["word-soup-token-offset: evaluate.offsets or offset_formula"]),
        (
            ["word-soup", "descriptor-soup"],
            ["word-soup: how a text is joined", "descriptor-soup: how a text is joined"],
        ),
        ([], []),
    ):
        lines = [Compared(row, 1, "dtd", 50, 100, 40 if row in wrong else 51, 100, 2) for row in verify.ROWS]
        named = verify.usual_causes(lines)
        assert [cause.startswith(start) for cause, start in zip(named, causes, strict=True)] == [True] * len(causes)
    assert not Compared("ZS", 1, "dtd", 50, 100, 50, 90, 2).agrees, "another split"


@pytest.fixture
def on_disk(in_tmp, monkeypatch, tiny_encoder_files, tiny_encoder, source) -> list[SearchLine]:
    """A run with right answers, without test images, and the log that `wsoup verify paper` reads."""
    log = right_log(source)
    run_on_disk(in_tmp, source=source, encoder=tiny_encoder)
    raw = safe_load(Paper("/data").text())
    raw["encoder"] = {**tiny_encoder_files, "interpolation": "bilinear"}
    Path("params.yaml").write_text(yaml.safe_dump(raw))
    monkeypatch.setattr(verify, "check_is_theirs", lambda run: None)
    monkeypatch.setattr(verify, "search_differs", lambda run: None)
    monkeypatch.setattr(verify, "read_searches", lambda: log)
    return log


def test_a_whole_run_is_verified_and_shown(on_disk, monkeypatch, capsys):
    """The command on a run with features, splits, scores and a soup on disk, with the log of right answers."""
    verify_paper(Path("params.yaml"))
    assert "7 of 7 counts of searches within what half precision explains" in capsys.readouterr().out
    on_disk[0] = on_disk[0]._replace(theirs=on_disk[0].theirs + 3.0)
    counts = [Known(method, 1, "dtd", 290, 0) for method in ("ZS", "ensemble", "gpt-centroids")]
    monkeypatch.setattr(verify, "read_counts", lambda: counts)
    monkeypatch.setattr(verify, "read_texts", lambda: {("word", 1): CHAIN})
    features = read_features(Artifacts().features("imagenet", split="train"))
    write_features(Artifacts().features("dtd", split="test"), features)
    dtd = {"name": "dtd", "role": "xd", "baseline_template": None, "gpt_names": {}, "gpt": None}
    store.write_checked_object(Artifacts().evaluated, {"datasets": [dtd], "soups": []})
    with pytest.raises(typer.Exit):
        verify_paper(Path("params.yaml"))
    shown = capsys.readouterr().out
    assert "6 of 7 counts of searches" in shown
    assert "0 of 2 evaluated counts within" in shown  # there are no GPT descriptors
    assert "this usually means: ZS: weights" in shown
    assert "0 of 290" in shown
    assert "seed 2: their best is 'wet', ours 'wet', 0 images better" in shown
    assert "descriptor soup, seed 1: the first 3 of their 3 members are ours" in shown


def test_a_count_of_a_search_that_differs_fails_alone(on_disk, capsys):
    on_disk[1] = on_disk[1]._replace(theirs=on_disk[1].theirs + 30.0)
    with pytest.raises(typer.Exit) as ended:
        verify_paper(Path("params.yaml"))
    assert ended.value.exit_code == 1
    shown = capsys.readouterr().out
    assert "6 of 7 counts of searches" in shown
    assert "does not agree" not in shown


def test_a_ranking_that_differs_fails_alone(on_disk, capsys, tiny_encoder):
    """Their best word is 'wet'; here 'sharp' is right on 90 images more."""
    write_scores(Artifacts(), n_correct=[9, 96, 6], encoder=tiny_encoder)
    with pytest.raises(typer.Exit) as ended:
        verify_paper(Path("params.yaml"))
    assert ended.value.exit_code == 1
    shown = capsys.readouterr().out
    assert "7 of 7 counts of searches" in shown
    assert "does not agree: words, seed 2: their best is 'wet', ours 'sharp', 90 images better" in shown


def test_members_after_the_first_other_one_are_not_compared(on_disk, capsys, tiny_encoder):
    """Theirs are a, b, c and ours a, x, c: one is the same from the beginning on, though c is in both."""
    members = tuple(Member(text, 1, 200) for text in (SOUP[0], "which is plain", SOUP[2]))
    Soup("greedy", 1, "a photo of a {}.", tiny_encoder.id, members).save(Artifacts().soup("descriptor", seed=1))
    verify_paper(Path("params.yaml"))
    assert "descriptor soup, seed 1: the first 1 of their 3 members are ours" in capsys.readouterr().out


def run_on_disk(folder: Path, *, source: Source, encoder: Any) -> None:
    artifacts = Artifacts(folder)
    rows = np.arange(len(source.labels))
    about = {"encoder": encoder.id, "class_names": source.class_names, "template": source.template}
    features = ImageFeatures(source.image_features.numpy(), source.labels.numpy(), rows, about)
    write_features(artifacts.features("imagenet", split="train"), features)
    for seed, index in source.subsets.items():
        store.write_table(artifacts.split("imagenet", seed=seed), pa.table({"row": index.numpy()}))
    write_scores(artifacts, n_correct=[9, 5, 6], encoder=encoder)
    members = tuple(Member(text, 1, 200) for text in SOUP)
    Soup("greedy", 1, source.template, encoder.id, members).save(artifacts.soup("descriptor", seed=1))


def write_scores(artifacts: Artifacts, *, n_correct: Sequence[int], encoder: Any) -> None:
    scores = {"text": ["", "sharp", "wet"], "seed": [2] * 3, "n_correct": [*n_correct], "n_images": [200] * 3}
    store.write_table(artifacts.scores("words"), pa.table(scores), attributes={"encoder": encoder.id})
