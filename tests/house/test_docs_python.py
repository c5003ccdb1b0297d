"""The notebook and the Python code of README and docs run unchanged, on a tiny encoder."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import open_clip
import pytest
import torch
from project import ROOT
from small_world import COLOURS, write_image_folder

import wsoup
from wsoup.soup.soup import Member


@pytest.fixture
def tiny_by_any_name(tiny_encoder_files, monkeypatch):
    """Make open_clip load the tiny encoder for every name: real ones would be downloads."""
    create, tokenizer = open_clip.create_model_and_transforms, open_clip.get_tokenizer

    def small(name, pretrained):
        return create(tiny_encoder_files["model"], pretrained=tiny_encoder_files["pretrained"])

    monkeypatch.setattr(open_clip, "create_model_and_transforms", small)
    monkeypatch.setattr(open_clip, "get_tokenizer", lambda name: tokenizer(tiny_encoder_files["model"]))


def from_few_words(monkeypatch: pytest.MonkeyPatch, *, count: int, **options: int) -> None:
    """Make `wsoup.word_soup` use only the most common words: all of them take minutes."""
    short = partial(wsoup.word_soup, words=wsoup.common_words(count), **options)
    monkeypatch.setattr(wsoup, "word_soup", short)


def test_the_notebook_runs_from_images_to_a_classifier(in_tmp: Path, tiny_by_any_name):
    notebook = json.loads((ROOT / "docs" / "own_images.ipynb").read_text())
    colours = {"dark_red" if name == "red" else name: colour for name, colour in COLOURS.items()}
    write_image_folder(Path("photos"), splits={"train": 4, "test": 3}, classes=colours)
    names: dict = {}
    for cell in notebook["cells"]:
        assert not cell.get("outputs"), "the notebook should have no outputs"
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["accuracy"].n_images == 12
    assert names["accuracy"].gain is not None
    assert set(names["gains"]) == {"dark red", "green", "blue", "white"}
    assert names["Picture"]()._repr_html_().count("<rect") == len(COLOURS)
    assert wsoup.Soup.load("soup.json") == names["soup"]
    assert float((names["classifier"] - names["theirs"]).abs().max()) < 1e-6


def test_the_example_of_the_docs_runs(in_tmp: Path, tiny_by_any_name, monkeypatch, capsys):
    first, estimator, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), flags=re.S)
    root = write_image_folder(Path("photos"), splits={"train": 2}, classes=COLOURS)
    paths = sorted(root.rglob("*.png"))
    from_few_words(monkeypatch, count=1000)
    names = {"paths": paths, "labels": [sorted(COLOURS).index(path.parent.name) for path in paths]}
    names["names"] = sorted(COLOURS)
    exec(first, names)
    assert re.match(r"\d+\.\d\d % \(\d of 8\), [+-]", capsys.readouterr().out)
    exec(estimator, names)
    assert capsys.readouterr().out.startswith("[")


def test_the_heads_of_the_docs_run(in_tmp: Path, tiny_encoder):
    """Features around the texts of the colours; the head is saved and loaded."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "heads.md").read_text(), flags=re.S)
    options = {"class_names": sorted(COLOURS), "model": tiny_encoder.model, "tokenizer": tiny_encoder.tokenizer}
    soup = wsoup.Soup("class_name", 0, "a photo of a {}.", {"model": "tiny", "pretrained": None}, (Member(""),))
    classifier = soup.classifier(**options)
    labels = torch.arange(4 * len(COLOURS)) % len(COLOURS)
    noise = 0.05 * torch.randn(len(labels), len(classifier), generator=torch.Generator().manual_seed(0))
    features = torch.nn.functional.normalize(classifier.T[labels] + noise, dim=1)
    names = {"features": features, "labels": labels, "new_features": features, "pile": features}
    exec(
        block,
        {"wsoup": wsoup, **names, **options, "names": options["class_names"], "soup": soup, "classifier": classifier},
    )
    assert wsoup.Head.load("head.safetensors").class_names == tuple(sorted(COLOURS))


def test_every_public_name_is_in_the_docs():
    text = (ROOT / "docs" / "python.md").read_text()
    assert [name for name in wsoup.__all__ if f"wsoup.{name}" not in text and name != "Accuracy"] == []


def test_the_readmes_code_is_in_the_example():
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    example = (ROOT / "docs" / "python.md").read_text()
    for line in block.splitlines():
        assert line.partition("  #")[0].replace("new_", "") in example


def test_the_readmes_code_prints_what_it_shows(in_tmp: Path, tiny_encoder, monkeypatch, capsys):
    """Its digits are of photos outside the repository; everything around the digits is compared."""
    readme = (ROOT / "README.md").read_text()
    (block,), (shown,) = (re.findall(rf"```{kind}\n(.*?)```", readme, flags=re.S) for kind in ("python", "text"))
    root = write_image_folder(Path("photos"), splits={"train": 2}, classes=COLOURS)
    paths = sorted(root.rglob("*.png"))
    names = sorted(COLOURS)
    labels = [names.index(path.parent.name) for path in paths]
    model, tokenizer, preprocess = tiny_encoder.model, tiny_encoder.tokenizer, tiny_encoder.preprocess
    features = wsoup.encode_images(paths, model=model, preprocess=preprocess, progress=False)
    from_few_words(monkeypatch, count=300, k0=20, k1=100)
    given = {"wsoup": wsoup, "paths": paths, "labels": labels, "names": names, "new_features": features}
    exec(block, {**given, "new_labels": labels, "model": model, "tokenizer": tokenizer, "preprocess": preprocess})
    printed = capsys.readouterr().out.replace(", which may be noise", "")
    assert re.sub(r"\d+(\.\d\d)?", "N", printed).replace("-", "+") == re.sub(r"\d+(\.\d\d)?", "N", shown)
