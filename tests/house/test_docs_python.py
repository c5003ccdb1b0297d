"""The notebook and the Python code of README and docs run unchanged, on a tiny encoder."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import open_clip
import pytest
from notebooks import executed, text_of
from PIL import Image
from project import ROOT
from run_cli import run
from small_world import COLOURS, write_image_folder

import wsoup

REAL = ROOT.parent / "shared/real"
"""PACS photographs and a small encoder, which are not part of the repository."""


def load_for_every_name(monkeypatch: pytest.MonkeyPatch, model: str, *, weights: str, **about: object) -> None:
    """Make open_clip load one encoder whatever its name: real ones would be downloads."""
    create, tokenizer = open_clip.create_model_and_transforms, open_clip.get_tokenizer
    made = partial(create, model, pretrained=weights, **about)
    monkeypatch.setattr(open_clip, "create_model_and_transforms", lambda name, pretrained: made())
    monkeypatch.setattr(open_clip, "get_tokenizer", lambda name: tokenizer(model))


@pytest.fixture
def tiny_by_any_name(tiny_encoder_files, monkeypatch):
    load_for_every_name(monkeypatch, tiny_encoder_files["model"], weights=tiny_encoder_files["pretrained"])


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


def test_the_notebook_of_the_papers_soup_prints_what_it_shows(in_tmp: Path):
    """On the toy world as `make repro` draws it; another CPU may move a few images."""
    toy = Path("data/toy").resolve()
    toy.mkdir(parents=True)
    for script, folder in (("render.py", "world"), ("encoder.py", "encoder")):
        subprocess.run([sys.executable, script, "--out", str(toy / folder)], cwd=ROOT / "data/toy", check=True)
    shown = json.loads((ROOT / "docs/paper_soup.ipynb").read_text())
    made = executed(shown)
    *texts, counted, templates = [cell for cell in made["cells"] if cell["cell_type"] == "code"]
    *shown_texts, shown_count, shown_templates = [cell for cell in shown["cells"] if cell["cell_type"] == "code"]
    for cell, promised in zip([*texts[:3], templates], [*shown_texts[:3], shown_templates], strict=True):
        assert cell == promised
    predicted, promised = (text_of(cells[3]["outputs"]).splitlines() for cells in (texts, shown_texts))
    assert sum(ours != theirs for ours, theirs in zip(predicted, promised, strict=True)) <= 1
    right, expected = (
        int(re.search(r"\((\d+) of 240\), ", text_of(cell["outputs"]))[1])  # type: ignore[index]
        for cell in (counted, shown_count)
    )
    assert abs(right - expected) <= 5


def test_the_example_of_the_docs_runs(in_tmp: Path, tiny_by_any_name, monkeypatch, capsys):
    first, head, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), flags=re.S)
    root = write_image_folder(Path("photos"), splits={"train": 2}, classes=COLOURS)
    paths = sorted(root.rglob("*.png"))
    from_few_words(monkeypatch, count=1000)
    names = {"paths": paths, "labels": [sorted(COLOURS).index(path.parent.name) for path in paths]}
    names["names"] = sorted(COLOURS)
    exec(first, names)
    assert re.match(r"\d+\.\d\d % \(\d of 8\), [+-]", capsys.readouterr().out)
    exec(head, names)
    assert wsoup.Head.load("head.safetensors").class_names == tuple(sorted(COLOURS))


def test_a_soup_is_shared_with_its_card_in_three_lines(in_tmp: Path):
    """The hub stands here for fsspec's memory, where both lines go through the same code."""
    (block,) = [
        text
        for text in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), flags=re.S)
        if "hf://" in text
    ]
    assert len(block.splitlines()) == 3
    names = {"dataclasses": dataclasses, "wsoup": wsoup, "soup": wsoup.Soup.load("paper:word")}
    exec(block.replace("hf://", "memory://"), names)
    assert names["shared"] == dataclasses.replace(names["soup"], about=names["about"])


def test_five_lines_of_pandas_give_a_figure_of_a_table(monkeypatch, capsys):
    """The committed toy run's XD mean of the word soup, and its deviation over seeds."""
    pytest.importorskip("pandas")
    monkeypatch.chdir(ROOT)
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "report.md").read_text(), flags=re.S)
    exec(block, {})
    with open("reports/tables/zero_shot.csv", newline="") as file:
        (line,) = [row for row in csv.DictReader(file) if row["method"] == "Word soup"]
    assert capsys.readouterr().out == f"{float(line['XD mean']):.2f} ({float(line['XD mean (std)']):.2f})\n"


def test_every_public_name_is_in_the_docs():
    text = (ROOT / "docs" / "python.md").read_text()
    assert [name for name in wsoup.__all__ if f"wsoup.{name}" not in text] == []


def readme_blocks() -> tuple[str, str]:
    """README's Python: the paper's soup, and a search on one's own photos."""
    first, second = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    return first, second


def test_the_readmes_first_block_classifies_a_photo_with_the_papers_soup(in_tmp, tiny_by_any_name, capsys):
    """Six lines, without labels and search."""
    first, _ = readme_blocks()
    assert len(first.split("\n\n", 1)[1].splitlines()) == 5, "after the import"
    Image.new("RGB", (40, 40), (200, 30, 30)).save("photo.jpg")
    names: dict = {}
    exec(first, names)
    assert re.fullmatch(r"tensor\(\[[01]\]\)\n", capsys.readouterr().out)
    assert names["classifier"].shape[1] == 2
    plain = re.search(r'\("(.*)", pretrained="(.*)"\)', first)
    assert plain is not None
    model = wsoup.Soup.load("paper:descriptor").encoder
    assert plain.groups() == (f"{model['model']}-quickgelu", model["pretrained"])


def test_the_readmes_figures_of_the_papers_soup_are_the_authors_counts():
    """Of seed 1, as the soups of these names: means over datasets, from integer counts."""
    table = re.search(r"\| the authors' counts.*?\n\n", (ROOT / "README.md").read_text(), flags=re.S)
    assert table is not None
    lines = [[cell.strip(" `*") for cell in line.split("|")[1:-1]] for line in table[0].strip().splitlines()[2:]]
    shown = {name: [float(cell) for cell in cells[:3]] for name, *cells in lines}
    counted: dict[tuple[str, str], float] = {}
    for line in (ROOT / "data/paper/authors_evaluation_log.csv").read_text().splitlines()[1:]:
        method, seed, dataset, n_images, n_correct = line.split(",")
        if seed == "1":
            counted[method, dataset] = 100 * int(n_correct) / int(n_images)
    datasets = [dataset for method, dataset in counted if method == "ZS"]
    rows = {"class name alone": "ZS", "80 templates": "ensemble", "paper:word": "word-soup"}
    rows["paper:descriptor"] = "descriptor-soup"
    for name, method in rows.items():
        source, *others = (counted[method, dataset] for dataset in datasets)
        assert shown.pop(name) == [round(v, 1) for v in (source, sum(others[:10]) / 10, sum(others[10:]) / 4)]
    assert shown == {}


@pytest.mark.parametrize(
    "photographs",
    [
        False,
        pytest.param(True, marks=[pytest.mark.slow, pytest.mark.skipif(not REAL.is_dir(), reason="no photographs")]),
    ],
)
def test_the_readmes_code_prints_what_it_shows(photographs, in_tmp: Path, request, monkeypatch, capsys):
    """On the photographs that it names, up to near ties of another CPU; elsewhere everything around the digits."""
    readme = (ROOT / "README.md").read_text()
    _, block = readme_blocks()
    soup, shown, *_ = re.findall(r"```text\n(.*?)```", readme, flags=re.S)
    if photographs:
        config, weights = (REAL / "encoder" / f"mnv2-lit-text.{end}" for end in ("json", "safetensors"))
        open_clip.add_model_config(config)
        about = {"image_mean": (0.5,) * 3, "image_std": (0.5,) * 3, "image_interpolation": "bicubic"}
        load_for_every_name(monkeypatch, "mnv2-lit-text", weights=str(weights), **about)
        Path("photos").symlink_to(REAL / "pacs/photo")
        exec(block, {})
        printed = capsys.readouterr().out
        right, promised = (int(re.search(r"\((\d+) of 210\), \+", text)[1]) for text in (printed, shown))  # type: ignore[index]
        assert abs(right - promised) <= 5
        shown_now = run("soup", "show", "soup.json")[1].splitlines()
        assert [line for line in soup.splitlines() if line not in shown_now] == ["..."]
        return
    request.getfixturevalue("tiny_by_any_name")
    write_image_folder(Path("photos"), splits={"train": 2, "test": 2}, classes=COLOURS)
    from_few_words(monkeypatch, count=300, k0=20, k1=100)
    exec(block, {})
    assert without_figures(capsys.readouterr().out) == without_figures(shown)
    assert wsoup.Soup.load("soup.json").encoder["model"] == "ViT-B-32-quickgelu", "for `wsoup classify`"


def test_the_readmes_code_without_a_network_ends_in_a_line(in_tmp: Path, monkeypatch):
    """Photos, and weights that are not here: what to do, and no traceback."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_CACHE", str(in_tmp))
    write_image_folder(Path("photos"), splits={"train": 1, "test": 1}, classes=COLOURS)
    _, block = readme_blocks()
    with pytest.raises(SystemExit, match=r"no network\? Let weights be a file that you have, or move photos/ away"):
        exec(block, {})


def without_figures(printed: str) -> str:
    printed = printed.replace(", which may be noise", "").replace(", no difference", "").replace("-", "+")
    return re.sub(r"\d+(\.\d\d)?", "N", printed).replace("N image ", "N images ")


def test_the_readmes_code_runs_without_photos_and_network(in_tmp: Path, monkeypatch, capsys):
    """On what `make repro` leaves: the toy world's images, here a few others, and its own encoder."""
    readme = (ROOT / "README.md").read_text()
    _, block = readme_blocks()
    encoder = Path("data/toy/encoder").resolve()
    unpack = [sys.executable, "encoder.py", "--out", str(encoder)]  # as data/toy/dvc.yaml has it
    subprocess.run(unpack, cwd=ROOT / "data/toy", check=True)
    write_image_folder(Path("data/toy/world/shapes"), splits={"train": 2, "test": 2}, classes=COLOURS)
    from_few_words(monkeypatch, count=300, k0=20, k1=100)
    exec(block, {})
    _, shown, *_ = re.findall(r"```text\n(.*?)```", readme, flags=re.S)
    assert without_figures(capsys.readouterr().out) == without_figures(shown)
    code, _, errors = run(
        *("classify", "data/toy/world/shapes/test", "--soup", "soup.json", "--classes", ",".join(COLOURS)),
        *("--config", str(encoder / "toy-clip.json")),
    )
    assert code == 0, errors
    assert "accuracy" in errors
