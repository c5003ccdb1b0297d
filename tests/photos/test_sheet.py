"""The contact sheet: errors first, the surest first within a group, and labels as text."""

from __future__ import annotations

import csv
import re

import pytest
from PIL import Image

from wsoup.disk.csv_rows import write_rows
from wsoup.photos.classify import Prediction
from wsoup.photos.files import Photo
from wsoup.photos.sheet import write_sheet

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


def test_each_group_shows_its_share_of_the_pictures(picture, in_tmp, monkeypatch):
    """Six pictures for errors, cats and dogs: two of each, of which errors have none."""
    monkeypatch.setattr("wsoup.photos.sheet.MOST_PICTURES", 6)
    given = [Prediction(Photo(picture, None), [name], [0.9]) for name in ("cat", "cat", "cat", "dog", "dog", "dog")]
    page = sheet_of(given, in_tmp)
    assert page.count("<figure>") == 4
    assert "of each group up to 2 are shown" in page
    assert "<h2>cat <small>3</small></h2>" in page


def test_a_label_is_text_on_the_page(picture, in_tmp):
    page = sheet_of([Prediction(Photo(picture, LABEL), ["cat"], [0.9])], in_tmp)
    assert "is &lt;b onclick=alert(1)&gt;&amp;<br>" in page
    assert LABEL not in page


def test_a_class_name_is_text_on_the_page(picture, in_tmp):
    """In the heading of its photos, and as the answer of an error."""
    escaped = "&lt;b onclick=alert(1)&gt;&amp;"
    heading = sheet_of([Prediction(Photo(picture, None), [LABEL], [0.9])], in_tmp)
    assert f"<h2>{escaped} <small>1</small></h2>" in heading
    error = sheet_of([Prediction(Photo(picture, "cat"), [LABEL], [0.9])], in_tmp)
    assert f"<b>{escaped}</b>, is cat<br>" in error
    assert LABEL not in heading + error


def test_a_file_name_is_text_on_the_page(in_tmp):
    name = "it's <b>&.png"
    Image.new("RGB", (40, 30), "grey").save(name)
    page = sheet_of([Prediction(Photo(name, None), ["cat"], [0.9])], in_tmp)
    assert "alt='it&#x27;s &lt;b&gt;&amp;.png'" in page
    assert "<b>" not in page
    assert "it's" not in page


def test_the_share_of_right_photos_is_of_those_with_a_label(picture, in_tmp):
    given = [Prediction(Photo(picture, "cat"), ["cat"], [0.9]), Prediction(Photo(picture, None), ["cat"], [0.9])]
    assert "<p>2 photos, 100.00 % (1 of 1) right; of each group" in sheet_of(given, in_tmp)


ORDERS = ("\x1b", "\a", "\b", "\r", "\0", "\x7f", "\x85", "\x9b", "\u202e", "\u2066", "\u2028", "\ufeff", "\U000e0041")
"""What a terminal obeys, or what turns a text round, hides it or breaks its line."""


@pytest.mark.parametrize("order", ORDERS)
def test_no_control_character_is_in_a_page_or_a_table(picture, in_tmp, order):
    answer = Prediction(Photo(picture, f"{order}[31mred"), [f"a{order}[32mgreen"], [0.9])
    assert order not in sheet_of([answer], in_tmp)
    write_rows(in_tmp / "rows.csv", [{"path": f"{order}[0m.png", f"a{order}": f"b{order}[31mred"}])
    written = (in_tmp / "rows.csv").read_bytes().decode()
    assert order not in written
    escaped = order.encode("unicode_escape").decode()
    assert f"{escaped}[0m.png,b{escaped}[31mred" in written


def test_letters_of_all_scripts_stay_as_they_are(in_tmp):
    texts = ["Größe", "猫", "کتاب\u200cها", "👩\u200d🔬", "two\nlines", "a\tb"]
    write_rows(in_tmp / "rows.csv", [{"label": text} for text in texts])
    with (in_tmp / "rows.csv").open(newline="", encoding="utf-8") as file:
        assert [row["label"] for row in csv.DictReader(file)] == texts
