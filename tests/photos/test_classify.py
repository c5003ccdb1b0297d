"""`wsoup classify`: the soup's own answers, in every form, whatever photos are bad."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import open_clip
import pytest
import torch
import yaml
from PIL import Image
from run_cli import run
from small_world import COLOURS, write_image_folder
from yaml_in_c import safe_load

import wsoup
from wsoup.api.soups import Soup
from wsoup.base.errors import DataError, MissingError
from wsoup.core.member import Member
from wsoup.disk.files import Artifacts
from wsoup.images.decode import load_rgb
from wsoup.images.pixels import encode_pixels
from wsoup.params.inputs import EncoderParams
from wsoup.photos.classify import Classifier
from wsoup.photos.files import Photo, find_photos
from wsoup.photos.names import read_class_names
from wsoup.towers.encoder import load_encoder

CLASSES = "red,green,blue"
OPTIONS = ("--soup", "word-seed1", "--classes", CLASSES)


@pytest.fixture
def soup(tiny_encoder) -> Soup:
    members = tuple(Member(text, n_correct=5, n_images=9) for text in ("sharp", "which is flat", "time way"))
    return Soup("chains", 1, "a photo of a {}.", tiny_encoder.id, members)


@pytest.fixture
def photos(in_tmp, soup, tiny_encoder_files) -> list[str]:
    """Eight photos in a folder, a soup, and a params.yaml with the path of its encoder's weights."""
    soup.save("artifacts/soups/word/seed1.json")
    Path("params.yaml").write_text(json.dumps({"encoder": tiny_encoder_files}))
    root = write_image_folder(Path("new"), splits={"a": 2}, classes=COLOURS)
    return sorted(str(path) for path in root.rglob("*.png"))


def expected(paths, soup, encoder) -> torch.Tensor:
    """Probabilities (N, C), computed plainly."""
    pixels = torch.stack([encoder.preprocess(load_rgb(path)) for path in paths])
    classifier = soup.classifier(class_names=CLASSES.split(","), model=encoder.model, tokenizer=encoder.tokenizer)
    return (encoder.model.logit_scale.exp() * encode_pixels(encoder, pixels) @ classifier).softmax(dim=1)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_probabilities_equal_a_plain_computation(photos, soup, tiny_encoder):
    code, printed, errors = run("classify", "new", *OPTIONS)
    assert code == 0, errors
    rows = rows_of(printed)
    assert [row["path"] for row in rows] == photos
    for row, expected_probabilities in zip(rows, expected(photos, soup, tiny_encoder), strict=True):
        values, order = expected_probabilities.sort(descending=True)
        assert [row["class"], row["class_2"], row["class_3"]] == [CLASSES.split(",")[i] for i in order]
        probabilities = [float(row[name]) for name in ("probability", "probability_2", "probability_3")]
        assert probabilities == pytest.approx(values.tolist(), abs=2e-6)
    assert run("classify", "new", *OPTIONS, "--out", "found.csv")[:2] == (0, "")
    assert Path("found.csv").read_text() == printed


def test_no_more_classes_are_named_than_there_are(photos):
    """Five of three classes are three."""
    code, printed, _ = run("classify", "new", *OPTIONS, "--top", "5")
    assert code == 0
    assert [name for name in rows_of(printed)[0] if name.startswith("class")] == ["class", "class_2", "class_3"]
    assert printed == run("classify", "new", *OPTIONS, "--top", "3")[1]


def test_bad_photos_are_listed_and_the_rest_is_classified(photos):
    Path("new/a/red/00.png").write_bytes(b"broken")
    Path("list.csv").write_text("name,path\nx,new/a/red/00.png\ny,new/a/blue/00.png\nz,lost.png\n")
    code, printed, errors = run("classify", "list.csv", *OPTIONS, "--html", "s.html")
    assert code == 0
    answers = [(row["path"], row["status"], row["name"]) for row in rows_of(printed)]
    assert answers == [
        ("new/a/red/00.png", "not read", "x"),
        ("new/a/blue/00.png", "ok", "y"),
        ("lost.png", "not read", "z"),
    ]
    last = errors.splitlines()[-3:]
    assert last[0].startswith("not read: new/a/red/00.png is not an image")
    assert last[1].startswith("not read: lost.png does not exist")
    assert last[2] == "2 of 3 photos could not be read"


def test_the_contact_sheet_is_one_page_with_every_photo(photos):
    odd = "new/<b> & 'quotes'.png"
    Image.open(photos[0]).save(odd)
    assert run("classify", "new", *OPTIONS, "--html", "sheet.html")[0] == 0
    page = Path("sheet.html").read_text()
    assert page.count("data:image/jpeg;base64,") == len(photos) + 1
    assert "&lt;b&gt; &amp; &#x27;quotes&#x27;.png" in page
    assert "http" not in page


def test_encoder_options_replace_params_yaml(photos, tiny_encoder_files):
    where = {name: tiny_encoder_files[name] for name in ("pretrained", "config")}
    options = [part for name, value in where.items() for part in (f"--{name}", value)]
    usual = run("classify", "new", *OPTIONS)[1]
    Path("params.yaml").unlink()
    assert run("classify", "new", *OPTIONS, *options)[1] == usual
    code, printed, errors = run("classify", "new", *OPTIONS)
    assert (code, printed) == (1, "")
    assert "tiny.safetensors, the weights of artifacts/soups/word/seed1.json, is not a file here; name the" in errors
    assert "(--params FILE), or the file itself (--pretrained FILE, and --config FILE)" in errors


def test_another_encoder_is_refused(photos, soup):
    other = {**soup.encoder, "weights": "0" * 64}
    Soup(soup.kind, 1, soup.template, other, soup.members).save("other.json")
    code, printed, errors = run("classify", "new", "--soup", "other.json", "--classes", CLASSES)
    assert (code, printed) == (1, "")
    assert "error: other.json was made with another encoder than tiny-clip" in errors
    assert f"(weights {'0' * 64} there, {soup.encoder['weights']} here)" in errors
    Soup(soup.kind, 1, soup.template, {"model": "CLIP", "pretrained": None}, soup.members).save("memory.json")
    errors = run("classify", "new", "--soup", "memory.json", "--classes", CLASSES)[2]
    assert "memory.json does not say how its encoder (CLIP) is loaded" in errors


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("nowhere", "--classes", CLASSES), "nowhere does not exist; name photos"),
        (("new", "--classes", CLASSES, "--out", "found.xls"), "--out found.xls must end in .csv"),
        (("new", "--classes", CLASSES, "--config", "/no.json"), "/no.json does not exist"),
        (("new", "--classes", CLASSES, "--template", "no"), "must hold exactly one placeholder"),
    ],
)
def test_unusable_options_are_one_line(photos, arguments, text):
    code, printed, errors = run("classify", *arguments, "--soup", "word-seed1")
    assert (code, printed) == (1, "")
    assert text in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize("classes", [(), ("--classes", CLASSES)])
@pytest.mark.parametrize(
    ("mistyped", "says"),
    [
        ("tried/head.safetensor", "did you mean tried/head.safetensors?"),
        ("tride/soup.json", "did you mean tried/soup.json?"),
        ("tried/other.json", "`wsoup try` writes a soup and a head, `dvc repro` those of a pipeline folder"),
    ],
)
def test_a_soup_or_head_that_is_not_there_is_said_first(in_tmp: Path, classes, mistyped: str, says: str) -> None:
    write_image_folder(Path("new"), splits={"a": 1}, classes=COLOURS)
    Path("tried").mkdir()
    for name in ("head.safetensors", "soup.json"):
        Path("tried", name).touch()
    assert run("classify", "new", "--soup", mistyped, *classes) == (
        1,
        "",
        f"error: {mistyped} does not exist; {says}\n",
    )


@pytest.mark.parametrize("command", [("classify", "new", "--soup", "ridge"), ("soup", "show", "ridge")])
def test_a_head_of_the_pipeline_is_named_by_its_file(in_tmp: Path, command: tuple[str, ...]) -> None:
    write_image_folder(Path("new"), splits={"a": 1}, classes=COLOURS)
    for seed in (1, 2):
        file = Artifacts().head("ridge", seed=seed)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    says = (
        "'ridge' is a head, not a soup; where a head is taken, name its file: artifacts/heads/ridge/seed1.safetensors"
    )
    assert run(*command) == (1, "", f"error: {says}\n")


def paths_of(*places: str) -> list[str]:
    return [photo.path for photo in find_photos(places)[0]]


def test_photos_are_files_folders_and_lists(in_tmp):
    for name in ("b/2.JPG", "b/1.png", "b/.hidden.png", "b/.git/3.png", "b/notes.txt", "a.png"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(b"x")
    Path("b/loop").symlink_to("../b")
    assert paths_of("b", "a.png", "b/1.png") == ["b/1.png", "b/2.JPG", "a.png", "b/1.png"]
    Path("b/3.heic").touch()
    assert find_photos(["b"])[1] == "left out, convert them to .jpg: 1 .heic; no photos: 1 .txt"
    Path("b/list.csv").write_text("label,path\n1,1.png\n2,a.png\n")
    assert paths_of("b/list.csv") == ["b/1.png", "a.png"]
    Path("empty").mkdir()
    with pytest.raises(DataError, match=r"no images in empty; expected \.apng"):
        find_photos(["empty"])
    Path("list.csv").write_text("url\nx\n")
    with pytest.raises(DataError, match=r"list.csv: column path is missing beside 'url'; expected columns path"):
        find_photos(["list.csv"])
    with pytest.raises(MissingError, match=r"lost\.png does not exist"):
        find_photos(["lost.png"])


def test_class_names_come_from_the_option_or_a_file(in_tmp):
    assert [*read_class_names("cat, hot dog ,")] == ["cat", "hot dog"]
    Path("names.txt").write_text("fir, silver\n\noak\n")
    assert [*read_class_names("names.txt").values()] == ["fir, silver", "oak"]
    Path("names.txt").write_text("n01\tfir\nn02\thot dog\n")
    assert read_class_names("names.txt") == {"n01": "fir", "n02": "hot dog"}


# ------------------------------------------------------------------------------------------------- preprocessing


@pytest.fixture
def grey(in_tmp, tiny_encoder_files) -> Soup:
    """A soup made in Python with another image mean than the model's, photos, and no params.yaml."""
    where = {"pretrained": tiny_encoder_files["pretrained"], "image_mean": (0.5,) * 3, "image_std": (0.5,) * 3}
    model, _, preprocess = open_clip.create_model_and_transforms("tiny-clip", **where)
    root = write_image_folder(Path("new"), splits={"a": 2}, classes=COLOURS)
    paths = sorted(root.rglob("*.png"))
    how = {"class_names": sorted(COLOURS), "model": model, "tokenizer": open_clip.get_tokenizer("tiny-clip")}
    features = wsoup.encode_images(paths, model=model, preprocess=preprocess, progress=False)
    labels = [path.parent.name for path in paths]
    soup = wsoup.descriptor_soup(features, labels, descriptors=["flat", "sharp"], m=2, progress=False, **how)
    soup.save("grey.json")
    Path("expected.json").write_text(json.dumps((features @ soup.classifier(**how)).argmax(1).tolist()))
    wsoup.fit_head(features, labels, soup=soup, **how).save("head.safetensors")
    return soup


# ------------------------------------------------------------------------------------ what `wsoup try` wrote


@pytest.fixture
def tried(in_tmp, tiny_encoder_files) -> Path:
    """A trial in a folder of its own, without any params.yaml here."""
    write_image_folder(Path("photos"), splits={"train": 2, "test": 2}, classes=COLOURS)
    code, _, errors = run("try", "photos", *where_of(tiny_encoder_files)[2:], "--out", "tried")
    assert code == 0, errors
    return Path("tried")


@pytest.mark.parametrize("folder", ["tried", "elsewhere/moved"])
@pytest.mark.parametrize("made", [["--soup", "soup.json", "--classes", "classes.txt"], ["--soup", "head.safetensors"]])
def test_what_lies_beside_a_soup_says_how_its_encoder_is_loaded(tried: Path, folder: str, made: list[str]) -> None:
    """From any folder, and after a move."""
    Path(folder).parent.mkdir(exist_ok=True)
    tried.rename(folder)
    options = [f"{folder}/{part}" if "." in part else part for part in made]
    code, printed, errors = run("classify", "photos/test", *options)
    assert code == 0, errors
    assert len(rows_of(printed)) == 8
    assert "accuracy" in errors


def test_an_encoder_that_is_gone_is_named_with_every_way_to_find_it(tried: Path, tiny_encoder_files) -> None:
    gone = safe_load(Path("tried/encoder.yaml").read_text())
    gone["encoder"]["pretrained"] = "/gone/tiny.safetensors"
    Path("tried/encoder.yaml").write_text(yaml.safe_dump(gone))
    options = ["--soup", "tried/soup.json", "--classes", "tried/classes.txt"]
    code, _, errors = run("classify", "photos/test", *options)
    assert code == 1
    assert "/gone/tiny.safetensors, the weights of tried/soup.json, is not a file here; name the params.yaml" in errors
    Path("tried/encoder.yaml").unlink()
    errors = run("classify", "photos/test", *options)[2]
    assert "encoder.yaml that has its path (--params FILE)" in errors
    Path("mine.yaml").write_text(json.dumps({"encoder": tiny_encoder_files}))
    assert run("classify", "photos/test", *options, "--params", "mine.yaml")[0] == 0


def test_the_config_of_a_local_model_is_asked_for_where_it_can_be_given(tried: Path, tiny_encoder_files) -> None:
    """Without a params.yaml by an option; with one, there."""
    Path("tried/encoder.yaml").unlink()
    soup = json.loads(Path("tried/soup.json").read_text())
    soup["encoder"]["model"] = "something"
    Path("tried/soup.json").write_text(json.dumps(soup))
    weights = tiny_encoder_files["pretrained"]
    options = ["--soup", "tried/soup.json", "--classes", "tried/classes.txt"]
    says = "error: open_clip has no model 'something'; for a model of your own give --config FILE"
    assert run("classify", "photos/test", *options, "--pretrained", weights)[2].startswith(says)
    shutil.copy(weights, ".")
    assert run("classify", "photos/test", *options)[2].startswith(says)
    section = {"model": "something", "pretrained": weights, "precision": "fp32", "watch": weights}
    Path("params.yaml").write_text(json.dumps({"encoder": section}))
    assert "for a model of your own set encoder.config" in run("classify", "photos/test", *options)[2]


def test_another_encoder_beside_a_soup_is_not_taken(tried: Path, tiny_encoder_files) -> None:
    other = safe_load(Path("tried/encoder.yaml").read_text())
    other["encoder"] |= {"model": "other-clip"}
    Path("tried/encoder.yaml").write_text(yaml.safe_dump(other))
    code, _, errors = run("classify", "photos/test", "--soup", "tried/soup.json", "--classes", "tried/classes.txt")
    assert code == 1
    assert "tiny.safetensors, the weights of tried/soup.json, is not a file here" in errors


def where_of(files: dict[str, str]) -> list[str]:
    return ["--model", "tiny-clip", "--pretrained", files["pretrained"], "--config", files["config"]]


def test_a_soup_carries_its_preprocessing(grey, tiny_encoder_files):
    """By --model alone, the encoder would normalise with its own mean."""
    assert (grey.preprocessing["mean"], grey.preprocessing["size"]) == ([0.5] * 3, [16, 16])
    assert wsoup.Soup.load("grey.json") == grey
    assert grey.class_name_soup().preprocessing == grey.preprocessing
    names, options = sorted(COLOURS), ["--soup", "grey.json", "--classes", ",".join(sorted(COLOURS))]
    code, printed, errors = run("classify", "new", *options, *where_of(tiny_encoder_files))
    assert code == 0, errors
    assert [names.index(row["class"]) for row in rows_of(printed)] == json.loads(Path("expected.json").read_text())


def test_texts_without_a_soup_take_the_preprocessing_of_the_options_or_of_the_section_about_that_model(
    grey, tiny_encoder_files
):
    """A section about another model says nothing of it."""
    names = ",".join(sorted(COLOURS))
    options = ["classify", "new", "--soup", "class_name", "--classes", names]
    named = where_of(tiny_encoder_files)
    own = run(*options, *named)[1]
    code, expected, errors = run(*options, *named, "--image-mean", ".5,.5,.5", "--image-std", ".5,.5,.5")
    assert code == 0, errors
    assert expected != own
    section = {**tiny_encoder_files, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    Path("same.yaml").write_text(json.dumps({"encoder": section}))
    assert run(*options, "--params", "same.yaml")[1] == expected
    assert run(*options, *named, "--params", "same.yaml")[1] == expected
    Path("other.yaml").write_text(json.dumps({"encoder": {**section, "model": "other-clip"}}))
    assert run(*options, *named, "--params", "other.yaml")[1] == own
    assert run(*options, *named[2:], "--params", "other.yaml")[1] == own


def test_what_the_templates_take_of_a_template_is_said(grey, tiny_encoder_files):
    options = ["classify", "new", "--classes", ",".join(sorted(COLOURS)), *where_of(tiny_encoder_files)]
    line = "templates: of --template only what follows the class name is used"
    assert line in run(*options, "--soup", "templates", "--template", "a sketch of a {}.")[2]
    assert line not in run(*options, "--soup", "templates")[2]
    assert line not in run(*options, "--soup", "class_name", "--template", "a sketch of a {}.")[2]


def test_a_head_classifies_its_own_classes(grey, tiny_encoder_files):
    head = replace(wsoup.Head.load("head.safetensors"), temperature=3.0)
    head.save("head.safetensors")
    code, printed, errors = run("classify", "new", "--soup", "head.safetensors", *where_of(tiny_encoder_files))
    assert code == 0, errors
    encoder = load_encoder(EncoderParams(**tiny_encoder_files, image_mean=(0.5,) * 3, image_std=(0.5,) * 3))
    pixels = torch.stack([encoder.preprocess(load_rgb(row["path"])) for row in rows_of(printed)])
    expected_probabilities = head.predict_proba(encode_pixels(encoder, pixels))
    assert [float(row["probability"]) for row in rows_of(printed)] == pytest.approx(
        expected_probabilities.amax(1).tolist(), abs=2e-6
    )
    assert [row["class"] for row in rows_of(printed)] == [head.class_names[i] for i in expected_probabilities.argmax(1)]
    for options in (["--template", "a {}."], ["--classes", "red,blue"], ["--adapt"]):
        assert "a head knows its classes" in run("classify", "new", "--soup", "head.safetensors", *options)[2]
    assert "name the classes, and a soup unless it is the run's own" in run("classify", "new")[2]


def test_of_equal_probabilities_the_lowest_labels_come_first():
    """As with `argmax`: a thousand classes of whose texts the photo knows nothing."""
    names = [f"class {label}" for label in range(1000)]
    classifier = Classifier(names, torch.ones(4, 1000), 100.0)
    (answer,) = classifier.answers([Photo("a.png")], torch.zeros(1, 4), top=5)
    assert list(answer.classes) == names[:5]


def test_each_of_thousands_of_photos_has_its_own_answer():
    """More than are sorted at once: photo i looks like class i mod 3."""
    photos = [Photo(f"{i}.png") for i in range(5000)]
    features = torch.eye(3)[torch.arange(5000) % 3]
    answers = list(Classifier(["a", "b", "c"], torch.eye(3), logit_scale=10.0).answers(photos, features, top=1))
    assert [answer.photo for answer in answers] == photos
    assert [answer.classes for answer in answers] == [["abc"[i % 3]] for i in range(5000)]


def test_a_photo_that_cannot_be_decoded_keeps_its_place_behind_rows_without_a_photo(photos, tiny_encoder):
    """The file after one that is not looked at is the second of all, and the first of those that are read."""
    Path("broken.png").write_bytes(b"broken")
    listed = [Photo("", problem="it names no file"), Photo("broken.png"), Photo(photos[0]), Photo("", problem="nor it")]
    classifier = Classifier(["a", "b"], torch.randn(16, 2, generator=torch.Generator().manual_seed(0)), 100.0)
    answers, _ = classifier.predictions(listed, encoder=tiny_encoder, top=1, adapt=False)
    assert [answer.photo for answer in answers] == listed
    assert [bool(answer.classes) for answer in answers] == [False, False, True, False]
    assert (answers[0].problem, answers[3].problem) == ("it names no file", "nor it")
    assert "broken.png" in answers[1].problem


def test_the_default_soup_is_the_runs_own_with_all_seeds(photos, soup, tiny_encoder, tiny_encoder_files):
    other = replace(soup, seed=2, members=(Member("old", n_correct=5, n_images=9),))
    other.save("artifacts/soups/word/seed2.json")
    together = replace(soup, members=(*soup.members, *other.members))
    together.save("together.json")
    Path("params.yaml").unlink()
    assert "no params.yaml whose report.soup names a soup" in run("classify", "new", "--classes", CLASSES)[2]
    assert "--params: there is no no" in run("classify", "new", "--classes", CLASSES, "--params", "no")[2]
    how = {"soup": "word", "mode": "score_mean", "confidence": 0.95, "gallery": 0}
    Path("params.yaml").write_text(json.dumps({"encoder": tiny_encoder_files, "report": how}))
    judged = rows_of(run("classify", "new", "--classes", CLASSES)[1])
    mean = {"class_names": CLASSES.split(","), "model": tiny_encoder.model, "tokenizer": tiny_encoder.tokenizer}
    weights = together.classifier(**mean, mode="score_mean")
    pixels = torch.stack([tiny_encoder.preprocess(load_rgb(path)) for path in photos])
    chances = (tiny_encoder.model.logit_scale.exp() * encode_pixels(tiny_encoder, pixels) @ weights).softmax(1).amax(1)
    assert [float(row["probability"]) for row in judged] == pytest.approx(chances.tolist(), abs=2e-6)  # as it is judged
    named = run("classify", "new", "--soup", "word", "--classes", CLASSES)[1]
    assert named == run("classify", "new", "--soup", "together.json", "--classes", CLASSES)[1]
    assert rows_of(named) != judged
    assert run("soup", "export", "--format", "text")[1] == run("soup", "export", "together.json", "--format", "text")[1]
    assert "all seeds, 4 members" in run("soup", "show")[1]
    assert "name such as word or word-seed1" in run("soup", "show", "neither")[2]


# ------------------------------------------------------------------------------------ labels, mode, adapt


def test_every_row_of_a_list_comes_back_in_order(photos):
    given = "path,label,class,input_class,note\nnew/a/red/00.png,Red,x,u,=1\n,red,y,v,\nnew/a/green/00.png,grey,z,w,n\n"
    Path("list.csv").write_text(given + "new/a/red/00.png,BLUE,,,\n")
    code, printed, errors = run("classify", "list.csv", *OPTIONS)
    rows = rows_of(printed)
    assert code == 0
    assert [row["path"] for row in rows] == ["new/a/red/00.png", "", "new/a/green/00.png", "new/a/red/00.png"]
    assert [row["status"] for row in rows] == ["ok", "not read", "ok", "ok"]
    assert [(row["label"], row["input_input_class"], row["input_class"], row["note"]) for row in rows] == [
        ("Red", "x", "u", "'=1"), ("red", "y", "v", ""), ("grey", "z", "w", "n"), ("BLUE", "", "", "")
    ]  # fmt: skip
    right = (rows[0]["class"] == "red") + (rows[3]["class"] == "blue")
    assert f"accuracy {50 * right:.2f} % ({right} of 2)" in errors
    assert "1 of 4 photos have a label that is not a class name, and are not counted: 'grey' (1)" in errors


def test_an_earlier_answer_is_no_label(photos):
    for number, path in enumerate(photos):
        shutil.move(path, f"{number}.png")
    assert run("classify", *(f"{number}.png" for number in range(8)), *OPTIONS, "--out", "found.csv")[0] == 0
    code, printed, errors = run("classify", "found.csv", *OPTIONS)
    assert code == 0, errors
    assert "accuracy" not in errors
    assert {"class", "input_class", "input_status"} <= {*rows_of(printed)[0]}


def test_labels_are_compared_as_names_not_as_bytes(photos):
    Path("new/a/red").rename("new/a/café")
    Path("new/a/blue").rename("new/a/cafe\u0301Bar")
    rows = rows_of(run("classify", "new", "--soup", "word-seed1", "--classes", "cafe\u0301,green,white,Café bar")[1])
    errors = run("classify", "new", "--soup", "word-seed1", "--classes", "cafe\u0301,green,white,Café bar")[2]
    assert "of 8)" in errors
    assert len(rows) == 8


@pytest.mark.parametrize("classes", ["type 1,type 2,x", "annual crop,AnnualCrop,x"])
def test_names_that_differ_little_are_not_confused(photos, classes):
    first, second, _ = classes.split(",")
    Path("list.csv").write_text(f"path,label\nnew/a/red/00.png,{first}\nnew/a/red/01.png,{second}\n")
    Path("new/a/green").rename("new/a/1")  # a folder's number is no label
    places = ("list.csv", "new/a/1")
    code, printed, errors = run("classify", *places, "--soup", "word-seed1", "--classes", classes)
    right = sum(row["label"] == row["class"] for row in rows_of(printed))
    assert code == 0, errors
    assert f"accuracy {50 * right:.2f} % ({right} of 2)" in errors
    assert "may read better: type 1" not in errors


def test_folders_named_like_classes_are_labels(photos):
    Path("names.txt").write_text("red\tscarlet\ngreen\tgreen\nblue\tblue\nwhite\tpale\n")
    for classes, red, white in ((f"{CLASSES},white", "red", "white"), ("names.txt", "scarlet", "pale")):
        code, printed, errors = run(
            "classify", "new", "--soup", "word-seed1", "--classes", classes, "--html", f"{red}.html"
        )
        assert code == 0
        named = {"red": red, "green": "green", "blue": "blue", "white": white}
        known = [(named[Path(row["path"]).parent.name], row["class"]) for row in rows_of(printed)]
        right = sum(label == answer for label, answer in known)
        assert f"accuracy {100 * right / 8:.2f} % ({right} of 8)" in errors
        wrong = Counter(pair for pair in known if pair[0] != pair[1]).most_common()
        assert "most confused: " + ", ".join(f"{a} as {b} ({n})" for (a, b), n in wrong[:3]) in errors
        assert Path(f"{red}.html").read_text().count("class=wrong") == 8 - right


def test_folders_of_which_one_is_not_a_class_are_not_labels(photos):
    errors = run("classify", "new", *OPTIONS)[2]
    assert "accuracy" not in errors
    assert "folders are not taken for labels, since these are not classes: 'white' (2)" in errors


def test_names_that_may_read_better_are_proposed(photos):
    errors = run("classify", "new", "--soup", "word-seed1", "--classes", "AnnualCrop,car_side")[2]
    assert "names that may read better: AnnualCrop -> annual crop, car_side -> car side" in errors


def test_adaptation_equals_that_of_python(photos, soup, tiny_encoder):
    how = {"class_names": CLASSES.split(","), "model": tiny_encoder.model, "tokenizer": tiny_encoder.tokenizer}
    pixels = torch.stack([tiny_encoder.preprocess(load_rgb(path)) for path in photos])
    features = encode_pixels(tiny_encoder, pixels)
    adapted = wsoup.adapt(features, classifier=soup.classifier(**how), model=tiny_encoder.model)
    Path("new/a/red/02.png").write_bytes(b"broken")
    code, printed, errors = run("classify", "new", *OPTIONS, "--adapt")
    assert code == 0, errors
    rows = [row for row in rows_of(printed) if row["status"] == "ok"]
    expected_probabilities = adapted.predict_proba(features).amax(1).tolist()
    assert [float(row["probability"]) for row in rows] == pytest.approx(expected_probabilities, abs=2e-6)
    assert adapted.note in errors


def test_copies_are_classified_but_not_adapted_to(photos):
    for i in range(30):
        shutil.copy(photos[0], f"new/copy{i:02}.png")
    code, printed, errors = run("classify", "new", *OPTIONS, "--adapt")
    assert code == 0, errors
    assert len([row for row in rows_of(printed) if row["status"] == "ok"]) == 30 + len(photos)
    assert f"{len(photos)} images for 3 classes, adaptation needs 8 for each" in errors
    assert f"30 of {30 + len(photos)} images are copies, and each photo counts once" in errors
