"""Odd texts are shown safely on terminals, in Markdown and in spreadsheets; long ones are refused."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from processes import run_module
from rich.table import Table
from rich.text import Text

from wsoup.base.errors import PoolError
from wsoup.cli.common import Terminal, put
from wsoup.core.member import Member, Step
from wsoup.core.soup import Soup
from wsoup.disk.csv_rows import write_rows
from wsoup.disk.files import tamed
from wsoup.evaluate.classifiers import check_rows
from wsoup.evaluate.evaluation import mean_texts
from wsoup.evaluate.rows import Row
from wsoup.evaluate.testsets import TestSet
from wsoup.photos.classify import Prediction
from wsoup.photos.files import Photo
from wsoup.photos.tables import row_of
from wsoup.report import tables
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder

ENCODER = {"model": "[/m]", "pretrained": "p|q"}
ODD = [
    *("[/x]", "[bold]loud[/bold]", "[red", "a | b", "<img src=x onerror=alert(1)>", "![x](http://x.example/y.png)"),
    *("=1+2", "+1", "-1", "@SUM(A1)", "＝1+2", "＠SUM(A1)", "\t=1+2", "\n=1+2", "'quoted' \"twice\"", "back\\slash"),
    *("\x1b]0;title\x07", "\x9b31mred", "\x1b[31mred", "two\nlines", "a\tb", "Größe ± 1 → 2", "\u202egnirts"),
    *("`code`", ""),
]


def soup_of(texts: list[str]) -> Soup:
    members = tuple(Member(text, n_correct=1, n_images=2, trace=(Step(text, 1),)) for text in texts)
    return Soup("greedy", 1, "a photo of a {}.", ENCODER, members)


def wsoup(*arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "wsoup.cli.app", *arguments]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, check=False)


# ----------------------------------------------------------------------------------------------------- terminals


@pytest.mark.parametrize(
    "variables", [{}, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}], ids=["utf8", "ascii"]
)
def test_a_soup_of_odd_texts_is_shown(tmp_path: Path, variables: dict[str, str]) -> None:
    soup_of(ODD).save(tmp_path / "soup.json")
    done = wsoup("soup", "show", str(tmp_path / "soup.json"), COLUMNS="200", **variables)
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode("ascii" if variables else "utf-8")
    for text in ("[/x]", "[bold]loud[/bold]", "[red", "[/m]/p|q", "\\x1b[31mred", "two\\nlines", "\\u202egnirts"):
        assert text in shown
    assert "\x1b[31m" not in shown
    assert ("Gr\\xf6\\xdfe \\xb1 1" if variables else "Größe ± 1") in shown


ORDERS = ["\x1b]0;title\x07", "\x1b[2J", "\x9b31m", "\x07", "\u202e", "\x1b]8;;http://x.example\x1b\\here"]
"""Escape sequences and control characters."""
PLAIN = {*map(chr, range(32, 127))}


def test_no_text_sends_an_escape_sequence_to_a_terminal(tmp_path: Path) -> None:
    """`wsoup soup export` writes a soup unchanged, except to a terminal."""
    soup_of([f"sharp{order}" for order in ORDERS]).save(tmp_path / "soup.json")
    for form in ("text", "clip_benchmark"):
        command = ["soup", "export", str(tmp_path / "soup.json"), "--format", form]
        ours, theirs = os.openpty()
        assert run_module("wsoup", *command, folder=tmp_path, out=os.ttyname(theirs)) == (0, "")
        os.close(theirs)
        printed = os.read(ours, 10_000).decode()
        os.close(ours)
        assert printed.count("sharp\\") == len(ORDERS)
        assert not set("".join(ORDERS)) & set(printed) - PLAIN


@pytest.mark.parametrize("order", ORDERS, ids=ascii)
def test_a_console_shows_escape_sequences(order: str) -> None:
    drawn = Table(title=order)
    drawn.add_column(f"head{order}")
    drawn.add_row(f"cell{order}")
    for what in (drawn, f"text{order}", Text(order)):
        file = io.StringIO()
        console = Terminal(file=file, force_terminal=True, width=200, color_system="truecolor")
        console.print(what, markup=False, style="bold red")
        printed = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())  # rich's own colours
        assert not set(order) & set(printed) - PLAIN


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_text_is_put_unchanged_except_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, shown in ((io.StringIO(), "sharp\x1b[2J\n"), (Tty(), "sharp\\x1b[2J\n")):
        monkeypatch.setattr(sys, "stdout", stream)
        put("sharp\x1b[2J\n")
        assert stream.getvalue() == shown


@pytest.mark.parametrize("order", ORDERS, ids=ascii)
def test_predictions_on_a_terminal_are_one_line_each(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Tty()
    monkeypatch.setattr(sys, "stdout", terminal)
    prediction = Prediction(Photo(f"a{order}.png", columns={"note": order}), (f"cat{order}",), (0.5,))
    write_rows(None, [row_of(prediction, top=1, inputs=("note",))])
    printed = terminal.getvalue()
    assert printed.count("\n") == 2
    assert printed.replace("\n", "").isprintable()


def test_an_error_is_shown_on_an_ascii_terminal() -> None:
    done = wsoup("soup", "show", "Größe ±", LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: no soup 'Gr\\")
    assert done.stderr.isascii()
    assert done.stderr.count(b"\n") == 1


# ---------------------------------------------------------------------------------------------------- table files


def table(texts: list[str]) -> tables.Table:
    rows = [{"row": text, "x": 1.5, "x (std)": 0.25, "n": -3} for text in texts]
    return tables.Table("t", "Title", ("row", "x", "x (std)", "n"), rows)


def test_markdown_tables_keep_their_columns_and_hold_no_html() -> None:
    lines = table(ODD).as_markdown().splitlines()[2:]
    assert len(lines) == len(ODD) + 2
    for line in lines:
        bare = line.replace("\\\\", "").replace("\\|", "").replace("\\[", "")
        assert bare.count("|") == 4
        assert "<" not in bare
        assert "[" not in bare
    assert "1.50 ± 0.25" in lines[2]


def test_csv_cells_are_not_formulas_and_numbers_stay_numbers() -> None:
    _, *rows = csv.reader(io.StringIO(table(ODD).as_csv()))
    for text, (first, x, deviation, n) in zip(ODD, rows, strict=True):
        assert first.lstrip("'") == tamed(text.replace("\n", " ")).lstrip("'")
        assert not first.startswith(("=", "+", "-", "@", "＝", "\t"))
        assert (float(x), float(deviation), int(n)) == (1.5, 0.25, -3)


# ----------------------------------------------------------------------------------------------- beyond the context

LONG = "great crested grebe of the northern lakes " * 3
"""More than half of 77 tokens."""


def dataset(encoder: Encoder, names: list[str]) -> TestSet:
    features, labels = torch.zeros(1, encoder.encode_texts(["x"]).shape[1]), torch.zeros(1, dtype=torch.int64)
    return TestSet("birds", "xd", "a photo of a {}.", names, features, labels, np.zeros(1, dtype=np.int64), {})


@pytest.mark.parametrize(
    ("names", "texts", "offset", "fits"),
    [
        (["cat", "dog"], ["", "sharp"], 0, True),
        (["cat", LONG.strip()], ["", "sharp"], 0, True),
        (["cat", (LONG * 4).strip()], [""], 0, False),
        (["cat", LONG.strip()], ["sharp", (LONG * 2).strip()], 0, False),
        (["cat", LONG.strip()], ["sharp"], 50, False),
        (["cat"], ["sharp"], 50, True),
        (["cat"], [], 0, True),
    ],
)
def test_texts_that_would_be_truncated_are_named_by_dataset_and_class(
    tiny_encoder: Encoder, names: list[str], texts: list[str], offset: int, fits: bool
) -> None:
    message = r"dataset birds: .*great crested grebe.*context of 77 tokens; shorten"
    with nullcontext() if fits else pytest.raises(PoolError, match=message):
        rows = [Row("soup", (1,), tuple(texts), offsets=(offset,))]
        check_rows(rows, tests=[dataset(tiny_encoder, names)], tokenizer=tiny_encoder.tokenizer)


def test_rows_are_checked_before_they_are_encoded(tiny_encoder: Encoder) -> None:
    test = dataset(tiny_encoder, ["cat", LONG.strip()])
    rows = [Row("class_name", (1,), ("",)), Row("word_soup", (1,), ((LONG * 2).strip(),))]
    with pytest.raises(PoolError, match="dataset birds: "):
        mean_texts(rows, tests=[test], text_encoder=PromptEncoder.of(tiny_encoder))


@pytest.mark.parametrize("times", [1, 4])
def test_prompts_by_class_are_checked_too(tiny_encoder: Encoder, times: int) -> None:
    row = Row("gpt", (1,), prompts=[["a cat."], ["a dog, " + LONG * times]], dataset="birds")
    with nullcontext() if times == 1 else pytest.raises(PoolError, match="dataset birds, class 'dog'"):
        check_rows([row], tests=[dataset(tiny_encoder, ["cat", "dog"])], tokenizer=tiny_encoder.tokenizer)
