"""The contact sheet: errors first, the surest first within a group, and labels as text."""

from __future__ import annotations

import re

import pytest
from PIL import Image

from wsoup.photos.classify import Prediction
from wsoup.photos.files import Photo
from wsoup.photos.sheet import write_sheet
from wsoup.photos.tables import write_rows

LABEL = "<b onclick=alert(1)>&"


@pytest.fixture
def picture(in_tmp) -> str:
    Image.new("RGB", (40, 30), "grey").save("one.png")
    return "one.png"


def sheet_of(predictions: list[Prediction], folder) -> str:
    write_sheet(folder / "sheet.html", predictions, title="photos")
    return (folder / "sheet.html").read_text(encoding="utf-8")


def test_errors_come_first_and_the_surest_first_in_each_group(picture, in_tmp):
    given = [
        Prediction(Photo(picture, "cat"), ["cat"], [0.51]),
        Prediction(Photo(picture, "cat"), ["dog"], [0.62]),
        Prediction(Photo(picture, "cat"), ["cat"], [0.93]),
        Prediction(Photo(picture, "cat"), ["dog"], [0.84]),
    ]
    page = sheet_of(given, in_tmp)
    assert re.findall(r"<br>(\d+)%|<figcaption>(\d+)%", page) == [("84", ""), ("62", ""), ("", "93"), ("", "51")]
    assert page.index("Errors") < page.index("84%") < page.index("<h2>cat")


def test_a_label_is_text_on_the_page(picture, in_tmp):
    page = sheet_of([Prediction(Photo(picture, LABEL), ["cat"], [0.9])], in_tmp)
    assert "is &lt;b onclick=alert(1)&gt;&amp;<br>" in page
    assert LABEL not in page


def test_no_escape_character_is_in_a_page_or_a_table(picture, in_tmp):
    answer = Prediction(Photo(picture, "\x1b[31mred"), ["\x1b[32mgreen"], [0.9])
    assert "\x1b" not in sheet_of([answer], in_tmp)
    write_rows(in_tmp / "rows.csv", [{"path": "\x1b[0m.png", "label": "\x1b[31mred"}])
    assert "\x1b" not in (in_tmp / "rows.csv").read_text(encoding="utf-8")
