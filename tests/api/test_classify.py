"""Facts about `wsoup classify`: the soup's own answers, in every form, and nothing that a bad photo could end."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from run_cli import run
from small_world import COLOURS, write_image_folder

from wsoup.api.photos import class_names, find_photos
from wsoup.api.soups import Soup
from wsoup.core.errors import DataError, MissingError
from wsoup.images.decode import load_rgb
from wsoup.soup.member import Member

CLASSES = "red,green,blue"


@pytest.fixture
def soup(tiny_encoder) -> Soup:
    members = tuple(Member(text, n_correct=5, n_images=9) for text in ("sharp", "which is flat", "time way"))
    return Soup("chains", 1, "a photo of a {}.", tiny_encoder.id, members)


@pytest.fixture
def photos(in_tmp, soup, tiny_encoder_files) -> list[str]:
    """Eight photos in a folder, a soup beside them, and params.yaml that knows where its weights lie."""
    soup.save("artifacts/soups/word/seed1.json")
    Path("params.yaml").write_text(json.dumps({"encoder": tiny_encoder_files}))
    root = write_image_folder(Path("new"), splits={"a": 2}, classes=COLOURS)
    return sorted(str(path) for path in root.rglob("*.png"))


def expected(paths, soup, encoder) -> torch.Tensor:
    """Probabilities (N, C) the plain way."""
    pixels = torch.stack([encoder.preprocess(load_rgb(path)) for path in paths])
    classifier = soup.classifier(class_names=CLASSES.split(","), model=encoder.model, tokenizer=encoder.tokenizer)
    return (encoder.model.logit_scale.exp() * encoder.encode_images(pixels) @ classifier).softmax(dim=1)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_probabilities_are_the_soups_own(photos, soup, tiny_encoder):
    code, printed, errors = run("classify", "new", "--soup", "word-seed1", "--classes", CLASSES)
    assert code == 0, errors
    rows = rows_of(printed)
    assert [row["path"] for row in rows] == photos
    for row, chances in zip(rows, expected(photos, soup, tiny_encoder), strict=True):
        values, order = chances.sort(descending=True)
        assert [row["class"], row["class_2"], row["class_3"]] == [CLASSES.split(",")[i] for i in order]
        found = [float(row[name]) for name in ("probability", "probability_2", "probability_3")]
        assert found == pytest.approx(values.tolist(), abs=2e-6)


def test_csv_parquet_and_json_lines_say_the_same(photos):
    options = ("--soup", "word-seed1", "--classes", CLASSES, "--top", "2", "--explain")
    rows = rows_of(run("classify", "new", *options)[1])
    assert list(rows[0]) == ["path", "class", "probability", "class_2", "probability_2", "agree", "members"]
    assert run("classify", "new", *options, "--out", "found.csv")[:2] == (0, "")
    assert rows_of(Path("found.csv").read_text()) == rows
    assert run("classify", "new", *options, "--out", "found.parquet")[0] == 0
    table = [{name: str(value) for name, value in row.items()} for row in pq.read_table("found.parquet").to_pylist()]
    assert [row["path"] for row in table] == [row["path"] for row in rows]
    assert [row["members"] for row in table] == [row["members"] for row in rows]
    lines = [json.loads(line) for line in run("classify", "new", *options, "--json")[1].splitlines()]
    assert [line["predictions"][1]["class"] for line in lines] == [row["class_2"] for row in rows]
    assert [len(line["members"]) for line in lines] == [int(row["agree"]) for row in rows]


def test_explain_names_the_members_that_alone_say_the_same(photos, soup, tiny_encoder):
    rows = rows_of(run("classify", "new", "--soup", "word-seed1", "--classes", CLASSES, "--explain")[1])
    for row, path in zip(rows, photos, strict=True):
        agreeing = []
        for member in soup.members:
            alone = Soup(soup.kind, 1, soup.template, {"model": "m", "pretrained": None}, (member,))
            if CLASSES.split(",")[int(expected([path], alone, tiny_encoder).argmax())] == row["class"]:
                agreeing.append(member.text)
        assert row["members"] == "; ".join(agreeing)


def test_bad_photos_are_listed_at_the_end_and_end_nothing(photos):
    Path("new/a/red/00.png").write_bytes(b"broken")
    Path("list.csv").write_text("name,path\nx,new/a/red/00.png\ny,new/a/blue/00.png\nz,lost.png\n")
    code, printed, errors = run(
        "classify", "list.csv", "--soup", "word-seed1", "--classes", CLASSES, "--html", "s.html"
    )
    assert code == 0
    assert [row["path"] for row in rows_of(printed)] == ["new/a/blue/00.png"]
    last = errors.splitlines()[-3:]
    assert last[0].startswith("not read: new/a/red/00.png is not an image")
    assert last[1].startswith("not read: lost.png cannot be read")
    assert last[2] == "2 of 3 photos could not be read"
    assert "Could not be read" in Path("s.html").read_text()


def test_all_photos_may_be_bad(photos):
    for path in photos:
        Path(path).write_bytes(b"")
    code, printed, errors = run("classify", "new", "--soup", "word-seed1", "--classes", CLASSES)
    assert (code, rows_of(printed)) == (0, [])
    assert errors.endswith("8 of 8 photos could not be read\n")


def test_the_contact_sheet_shows_every_photo_and_needs_nothing_else(photos):
    odd = "new/<b> & 'quotes'.png"
    Image.open(photos[0]).save(odd)
    assert run("classify", "new", "--soup", "word-seed1", "--classes", CLASSES, "--html", "sheet.html")[0] == 0
    page = Path("sheet.html").read_text()
    assert page.count("data:image/jpeg;base64,") == len(photos) + 1
    assert "&lt;b&gt; &amp; &#x27;quotes&#x27;.png" in page
    assert "http" not in page


def test_the_encoder_may_be_named_where_params_are_not_there(photos, tiny_encoder_files):
    where = {name: tiny_encoder_files[name] for name in ("pretrained", "config")}
    options = [part for name, value in where.items() for part in (f"--{name}", value)]
    usual = run("classify", "new", "--soup", "word-seed1", "--classes", CLASSES)[1]
    Path("params.yaml").unlink()
    assert run("classify", "new", "--soup", "word-seed1", "--classes", CLASSES, *options)[1] == usual
    code, printed, errors = run("classify", "new", "--soup", "word-seed1", "--classes", CLASSES)
    assert (code, printed) == (1, "")
    assert "was made with local weights, tiny.safetensors, which are not here; run in the folder of its" in errors


def test_another_encoder_is_refused(photos, soup):
    other = {**soup.encoder, "weights": "0" * 64}
    Soup(soup.kind, 1, soup.template, other, soup.members).save("other.json")
    code, printed, errors = run("classify", "new", "--soup", "other.json", "--classes", CLASSES)
    assert (code, printed) == (1, "")
    assert "error: other.json was made with another encoder than tiny-clip" in errors
    assert f"(weights {'0' * 64} there, {soup.encoder['weights']} here)" in errors


def test_a_soup_made_in_memory_says_how_to_name_its_encoder(photos, soup):
    Soup(soup.kind, 1, soup.template, {"model": "CLIP", "pretrained": None}, soup.members).save("memory.json")
    code, _, errors = run("classify", "new", "--soup", "memory.json", "--classes", CLASSES)
    assert code == 1
    assert "memory.json was made in memory and does not say how its encoder (CLIP) is loaded" in errors


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("nowhere", "--classes", CLASSES), "nowhere does not exist; name photos"),
        (("new", "--classes", "red"), "--classes names 'red' alone"),
        (("new", "--classes", "red,red"), "class_names holds 'red' 2 times"),
        (("new", "--classes", "lost.txt"), "--classes lost.txt does not exist"),
        (("new", "--classes", CLASSES, "--out", "found.xls"), "--out found.xls must end in .csv or .parquet"),
        (("new", "--classes", CLASSES, "--out", "a.csv", "--json"), "--json writes to stdout"),
        (("new", "--classes", CLASSES, "--template", "no"), "must hold exactly one placeholder"),
    ],
)
def test_what_will_not_do_is_one_line(photos, arguments, text):
    code, printed, errors = run("classify", *arguments, "--soup", "word-seed1")
    assert (code, printed) == (1, "")
    assert text in errors
    assert errors.count("\n") == 1


def test_photos_are_found_in_folders_lists_and_by_name(in_tmp):
    for name in ("b/2.JPG", "b/1.png", "b/.hidden.png", "b/.git/3.png", "b/notes.txt", "a.png"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(b"x")
    Path("b/loop").symlink_to("../b")
    assert find_photos(["b", "a.png", "b/1.png"]) == ["b/1.png", "b/2.JPG", "a.png"]
    Path("b/list.tsv").write_text("label\tfilename\n1\t1.png\n2\ta.png\n")
    assert find_photos(["b/list.tsv"]) == ["b/1.png", "a.png"]
    Path("empty").mkdir()
    with pytest.raises(DataError, match=r"no images in empty; expected \.avif"):
        find_photos(["empty"])
    Path("list.csv").write_text("url\nx\n")
    with pytest.raises(DataError, match=r"list.csv has url; expected a column path, file, filename, filepath or image"):
        find_photos(["list.csv"])
    with pytest.raises(MissingError, match=r"lost\.png does not exist"):
        find_photos(["lost.png"])


def test_class_names_come_from_the_line_or_a_file(in_tmp):
    assert class_names("cat, hot dog ,") == ["cat", "hot dog"]
    Path("names.txt").write_text("fir, silver\n\noak\n")
    assert class_names("names.txt") == ["fir, silver", "oak"]
