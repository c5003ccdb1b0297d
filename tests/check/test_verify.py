"""`wsoup verify paper`: a miniature with right and wrong answers, the authors' own logs, and which runs they fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
import typer
import yaml
from project import ROOT

from wsoup.base.errors import MismatchError, MissingError
from wsoup.check import paper as verify
from wsoup.check import paper_search
from wsoup.check.paper_search import Agreement, Step
from wsoup.check.whole import parse_params
from wsoup.cli.check import verify_paper
from wsoup.core.scoring import normalize
from wsoup.datasets.paper import PAPER
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.profiles.paper import paper
from wsoup.search.rank.source import Source
from wsoup.soup.member import Member
from wsoup.soup.soup import Soup

NAMES = ["red cat", "blue dog", "small green bird"]
CHAIN = ["sharp", "sharp clean", "sharp clean wet"]
SOUP = ["which has claws", "which is red", "which can fly"]


@pytest.fixture
def source(tiny_encoder) -> Source:
    features = normalize(torch.randn(300, 16, generator=torch.Generator().manual_seed(0)))
    subsets = {1: torch.arange(200), 2: torch.arange(100, 300)}
    return Source(tiny_encoder, features, torch.arange(300) % 3, subsets, "a photo of a {}.", NAMES)


def right_log(source: Source) -> list[Step]:
    """What the authors would have logged, by the plain way: whole prompts, one at a time."""

    def plain(texts: list[str], seed: int, end: str) -> float:
        sums = sum(source.texts.encode([f"a photo of a {n}, {text}{end}" for n in NAMES]) for text in texts)
        images, labels = source.images_of(seed)
        return 100.0 * float((images @ normalize(sums).T).argmax(dim=1).eq(labels).float().mean())

    log = [Step("word", 2, 0, 0, "wet", plain(["wet"], 2, ""))]
    log += [Step("word", 2, 1, i + 1, text, plain([text], 2, "")) for i, text in enumerate(CHAIN)]
    for i in range(len(SOUP)):
        log.append(Step("descriptor", 1, int(i > 0), i and i + 1, SOUP[i], plain(SOUP[: i + 1], 1, ".")))
    return log


def test_right_answers_agree_to_the_image(source):
    log = right_log(source)
    checked_lines = paper_search.score(log, source=source)
    assert [(checked.step, round(checked.difference, 4)) for checked in checked_lines] == [(step, 0.0) for step in log]


def test_wrong_answers_are_found(source):
    log = right_log(source)
    wrong = [replace(log[0], theirs=log[0].theirs + 3.0), *log[1:]]
    assert [round(checked.difference, 4) for checked in paper_search.score(wrong, source=source)] == [-3.0] + 6 * [0.0]
    moved = [*log[:-1], replace(log[-1], text="which is plain")]
    assert paper_search.score(moved, source=source)[-1].ours != pytest.approx(log[-1].theirs)


def test_seeds_that_the_run_lacks_are_left_out(source):
    log = [*right_log(source), Step("word", 3, 0, 0, "wet", 70.0)]
    assert {checked.step.seed for checked in paper_search.score(log, source=source)} == {1, 2}


def test_the_best_text_agrees_up_to_the_tolerance():
    step = Step("word", 3, 0, 0, "initially", 70.125)
    for ranked, holds, says in (
        ([("initially", 70.1), ("wet", 70.0)], True, "ours too"),
        ([("wet", 70.2), ("initially", 70.1)], True, "ours is 'wet'; theirs has rank 2, 0.100 points behind"),
        ([("wet", 71.0), ("initially", 70.1)], False, "0.900 points behind"),
        ([("wet", 71.0)], False, "not in this run's pool"),
    ):
        agreement = paper_search.best_agrees(step, ranked=ranked, within=0.25)
        assert agreement.holds is holds
        assert says in agreement.says


def test_the_same_soup_agrees(source):
    steps = [Step("descriptor", 1, int(i > 0), i, text, 70.0) for i, text in enumerate(SOUP)]
    assert paper_search.soup_agrees(steps, members=SOUP, source=source) == Agreement(
        True, "descriptor soup, seed 1: theirs has 3 members, ours 3, the same"
    )


def test_the_authors_log_is_complete():
    log = paper_search.read_searches(ROOT / paper_search.LOG)
    best = {(step.soup, step.seed): step for step in log if step.member == 0}
    assert len(best) == 4
    assert (best["word", 3].text, best["word", 3].theirs) == ("initially", 70.125)
    assert {step.text for step in log if step.text.endswith((".", " "))} == set()
    for (soup, seed, member), steps in _by_search(log).items():
        accuracies = [step.theirs for step in steps]
        assert accuracies == sorted(accuracies), (soup, seed, member)
    with pytest.raises(MissingError, match="run `wsoup verify paper` in the folder of the project"):
        paper_search.read_searches(Path("none.csv"))


def _by_search(log: list[Step]) -> dict[tuple[str, int, int], list[Step]]:
    groups: dict[tuple[str, int, int], list[Step]] = {}
    for step in log:
        groups.setdefault((step.soup, step.seed, step.member if step.soup == "word" else 0), []).append(step)
    return groups


def params_of(**choices: Any) -> Any:
    text = paper("/data", gpt_descriptors="/gpt", **choices)
    return parse_params(yaml.safe_load(text), origin="paper")


def test_only_the_authors_encoder_and_source_have_known_answers():
    verify.check_encoder(params_of())
    with pytest.raises(MismatchError, match=r"encoder.model is ViT-B-32, theirs ViT-B-16\. Begin with `wsoup profile"):
        verify.check_encoder(params_of(encoder="ViT-B-32"))
    for key, ours in (("interpolation", "bicubic"), ("decoding", "upright")):
        given = params_of()
        changed = given.model_copy(update={"encoder": given.encoder.model_copy(update={key: ours})})
        with pytest.raises(MismatchError, match=f"encoder.{key} is {ours}, theirs"):
            verify.check_encoder(changed)
    assert verify.search_differs(params_of(fewshot_pickles="/splits")) is None
    for choices, message in (
        ({}, "fewshot_pickles is none, theirs given. `wsoup profile paper --fewshot-pickles"),
        ({"fewshot_pickles": "/s", "source": "dtd"}, "source is dtd, theirs imagenet"),
    ):
        assert message in str(verify.search_differs(params_of(**choices)))


def test_the_authors_counts_are_complete():
    log, texts = verify.read_counts(ROOT / paper_search.FOLDER), verify.read_texts(ROOT / paper_search.FOLDER)
    assert len(log) == 9 * 15 * 3
    assert {line.method for line in log} == set(verify.ROWS)
    assert {line.dataset: line.n_images for line in log} == {name: known.n_test for name, known in PAPER.items()}
    assert [len(texts["descriptor", seed]) for seed in (1, 2, 3)] == [14, 17, 10]
    with pytest.raises(MissingError, match="run `wsoup verify paper` in the folder of the project"):
        verify.read_counts(Path("none"))


def test_disagreements_name_their_usual_causes():
    def counted(method: str, dataset: str, n_correct: int, n_images: int = 100) -> verify.Counted:
        return verify.Counted(verify.Known(method, 1, dataset, 100, 50), n_images, n_correct, 2)

    rows = [(method, name) for method in verify.ROWS for name in ("dtd", "eurosat")]
    for wrong, n_images, says in (
        (rows, 100, "everywhere: weights, activation"),
        ([row for row in rows if row[1] == "dtd"], 100, "dtd: class names or their order"),
        ([row for row in rows if row[0].startswith("gpt")], 100, "gpt_names, gpt_wording or baseline_template"),
        ([("ensemble", "dtd")], 100, "baseline_template of the prompt ensemble"),
        ([("word-soup-token-offset", "dtd")], 100, "evaluate.offsets or offset_formula"),
        ([("word-soup", "dtd"), ("descriptor-soup", "dtd")], 100, "how a text is joined to the class name"),
        ([("ZS", "dtd")], 90, "dtd: 90 test images, theirs 100: another split"),
    ):
        lines = [counted(*row, 40 if row in wrong else 51, n_images if row in wrong else 100) for row in rows]
        assert any(says in cause for cause in verify.usual_causes(lines)), says
    assert verify.usual_causes([counted(*row, 52) for row in rows]) == []


def test_a_whole_run_is_verified_and_shown(in_tmp, monkeypatch, capsys, tiny_encoder_files, tiny_encoder, source):
    """The command on a run with features, splits, scores and a soup on disk, with the log of right answers."""
    log = right_log(source)
    run_on_disk(in_tmp, source=source, encoder=tiny_encoder)
    raw = yaml.safe_load(paper("/data", without_descriptors=True))
    raw["encoder"] = {**tiny_encoder_files, "interpolation": "bilinear"}
    Path("params.yaml").write_text(yaml.safe_dump(raw))
    monkeypatch.setattr(verify, "check_encoder", lambda params: None)
    monkeypatch.setattr(verify, "search_differs", lambda params: None)
    monkeypatch.setattr(paper_search, "read_searches", lambda: log)
    verify_paper(Path("params.yaml"))
    assert "7 of 7 accuracies of searches within what half precision explains" in capsys.readouterr().out
    log[0] = replace(log[0], theirs=log[0].theirs + 3.0)
    counts = [verify.Known(method, 1, "dtd", 290, 0) for method in ("ZS", "ensemble", "gpt-centroids")]
    monkeypatch.setattr(verify, "read_counts", lambda: counts)
    monkeypatch.setattr(verify, "read_texts", lambda: {("word", 1): CHAIN})
    features = store.read_features(Artifacts().features("imagenet", split="train"))
    store.write_features(Artifacts().features("dtd", split="test"), features)
    dtd = {"name": "dtd", "role": "xd", "baseline_template": None, "gpt_names": {}, "gpt": None}
    store.write_json(Artifacts().evaluated, {"datasets": [dtd], "soups": []})
    with pytest.raises(typer.Exit):
        verify_paper(Path("params.yaml"))
    shown = capsys.readouterr().out
    assert "6 of 7 accuracies of searches" in shown
    assert "0 of 2 evaluated counts within" in shown  # there are no GPT descriptors
    assert "this usually means: dtd: 300 test images, theirs 290: another split" in shown
    assert "-3.000" in shown
    assert "seed 2: their best is 'wet', ours too" in shown
    assert "descriptor soup, seed 1: theirs has 3 members, ours 3, the same" in shown


def run_on_disk(folder: Path, *, source: Source, encoder: Any) -> None:
    artifacts = Artifacts(folder)
    rows = np.arange(len(source.labels))
    about = {"encoder": encoder.id, "class_names": source.class_names, "template": source.template}
    features = store.ImageFeatures(source.image_features.numpy(), source.labels.numpy(), rows, about)
    store.write_features(artifacts.features("imagenet", split="train"), features)
    for seed, index in source.subsets.items():
        store.write_table(artifacts.split("imagenet", seed=seed), pa.table({"row": index.numpy()}))
    scores = {"text": ["", "sharp", "wet"], "seed": [2] * 3, "n_correct": [9, 5, 6], "n_images": [200] * 3}
    scores = pa.table({**scores, "n_classes": [50] * 3})
    store.write_table(artifacts.scores("words"), scores, attributes={"encoder": encoder.id})
    members = tuple(Member(text, 1, 200) for text in SOUP)
    Soup("greedy", 1, source.template, encoder.id, members).save(artifacts.soup("descriptor", seed=1))
