"""`wsoup classify --weigh autoclip`: the texts of a soup or of the templates, weighed for each photo."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import open_clip
import pytest
import torch
from run_cli import run
from small_world import COLOURS, write_image_folder

import wsoup
from wsoup.core.autoclip import autoclip_scores, autoclip_weights
from wsoup.core.member import Member
from wsoup.core.scoring import AtOnce
from wsoup.core.soup import Soup
from wsoup.images.decode import load_rgb
from wsoup.images.pixels import encode_pixels
from wsoup.photos.classify import WeighedClassifier

NAMES = ["red", "green", "blue"]
TEXTS = ("sharp", "which is flat", "time way")


@pytest.fixture
def photos(in_tmp: Path, tiny_encoder, tiny_encoder_files: dict[str, str]) -> list[str]:
    """Eight photos in a folder, a soup of three texts, and a params.yaml that names the encoder."""
    members = tuple(Member(text) for text in TEXTS)
    Soup("chains", 1, "a photo of a {}.", tiny_encoder.id, members).save("soup.json")
    Path("params.yaml").write_text(json.dumps({"encoder": tiny_encoder_files}))
    root = write_image_folder(Path("new"), splits={"a": 2}, classes=COLOURS)
    return sorted(str(path) for path in root.rglob("*.png"))


def scores_of(photos: list[str], prompts: list[list[str]], encoder) -> torch.Tensor:
    """Cosines of photos with each text of each class, text by text: (N, M, C)."""
    pixels = torch.stack([encoder.preprocess(load_rgb(path)) for path in photos])
    texts = torch.stack([encoder.encode_texts(of_classes).clone() for of_classes in prompts])
    return torch.einsum("nd,mcd->nmc", encode_pixels(encoder, pixels), texts)


def probabilities(printed: str) -> torch.Tensor:
    """(N, C), classes in the order of `NAMES`."""
    lines = []
    for row in csv.DictReader(io.StringIO(printed)):
        by_name = {row[f"class{i}"]: float(row[f"probability{i}"]) for i in ("", "_2", "_3")}
        lines.append([by_name[name] for name in NAMES])
    return torch.tensor(lines)


def test_weights_by_hand():
    """A photo whose cosines with the two classes are (1, 0) by one text and (0, 0) by the other: the first counts more.

    The entropy of the weights is 0.85 of log 2, so they are 0.7238 and 0.2762; the scores are 0.7238 and 0.
    """
    texts = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.0, -1.0], [0.0, 1.0]]])  # M, C, D
    classifier = WeighedClassifier(["a", "b"], torch.eye(2), 10.0, members=texts)
    weight = float(autoclip_weights(torch.tensor([[[1.0, 0.0], [0.0, 0.0]]]))[0, 0])
    assert weight == pytest.approx(0.7238, abs=2e-4)
    logits = classifier.logits_of(torch.tensor([[1.0, 0.0]]))
    assert logits.tolist() == [[pytest.approx(10 * weight), 0.0]]


def test_photos_answered_a_block_at_a_time_have_the_same_logits(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    texts, features = torch.randn(3, 4, 8, generator=generator), torch.randn(5, 8, generator=generator)
    classifier = WeighedClassifier(list("abcd"), torch.eye(8, 4), 1.0, members=texts)
    whole = classifier.logits_of(features)
    assert classifier.logits_of(features[:0]).shape == (0, 4)
    monkeypatch.setattr("wsoup.core.text_scores.suited_to", lambda device: AtOnce(scores=24))  # two photos
    torch.testing.assert_close(classifier.logits_of(features), whole)


def test_a_soup_is_weighed_for_each_photo(photos, tiny_encoder):
    code, printed, errors = run(
        "classify", "new", "--soup", "soup.json", "--classes", "red,green,blue", "--weigh", "autoclip"
    )
    assert code == 0, errors
    prompts = [[f"a photo of a {name}, {text}." for name in NAMES] for text in TEXTS]
    expected = tiny_encoder.model.logit_scale.exp() * autoclip_scores(scores_of(photos, prompts, tiny_encoder))
    torch.testing.assert_close(probabilities(printed), expected.softmax(dim=1), atol=2e-6, rtol=1e-4)


def test_in_python_a_soup_is_weighed_like_by_classify(photos, tiny_encoder):
    model, tokenizer = tiny_encoder.model, tiny_encoder.tokenizer
    by_soup = wsoup.Soup.load("soup.json").autoclip(class_names=NAMES, model=model, tokenizer=tokenizer)
    pixels = torch.stack([tiny_encoder.preprocess(load_rgb(path)) for path in photos])
    features = encode_pixels(tiny_encoder, pixels)
    prompts = [[f"a photo of a {name}, {text}." for name in NAMES] for text in TEXTS]
    expected = autoclip_scores(scores_of(photos, prompts, tiny_encoder))
    torch.testing.assert_close(by_soup.scores(features), expected, atol=1e-6, rtol=1e-5)
    labels = expected.argmax(dim=1)
    assert torch.equal(by_soup.predict(features.numpy()), labels)
    plain = wsoup.Soup.load("soup.json").classifier(class_names=NAMES, model=model, tokenizer=tokenizer)
    torch.testing.assert_close(by_soup.classifier, plain)
    accuracy = wsoup.zero_shot_accuracy(features, labels, classifier=by_soup, baseline=plain, class_names=NAMES)
    assert (accuracy.n_correct, accuracy.n_images) == (len(photos), len(photos))
    assert repr(by_soup) == "<AutoCLIP over 3 texts, 3 classes>"
    with pytest.raises(wsoup.WsoupError, match=r"features have shape \(8, 5\)"):
        by_soup.predict(torch.ones(8, 5))


def test_the_templates_are_weighed_too_and_a_class_name_alone_has_one_text(photos, tiny_encoder):
    options = ("--classes", "red,green,blue", "--weigh", "autoclip")
    code, printed, errors = run("classify", "new", "--soup", "templates", *options)
    assert code == 0, errors
    prompts = [[fill(name) for name in NAMES] for fill in open_clip.OPENAI_IMAGENET_TEMPLATES]
    expected = tiny_encoder.model.logit_scale.exp() * autoclip_scores(scores_of(photos, prompts, tiny_encoder))
    torch.testing.assert_close(probabilities(printed), expected.softmax(dim=1), atol=2e-5, rtol=1e-3)
    weighed = run("classify", "new", "--soup", "class_name", *options)[1]
    plain = run("classify", "new", "--soup", "class_name", *options[:2])[1]
    torch.testing.assert_close(probabilities(weighed), probabilities(plain), atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--weigh", "zpe"], "--weigh 'zpe' is not known; it must be autoclip"),
        (
            ["--weigh", "autoclip", "--adapt"],
            "--weigh weighs texts for one photo, and --adapt",
        ),
    ],
)
def test_what_cannot_be_weighed_is_said(photos, options, message):
    code, printed, errors = run("classify", "new", "--soup", "soup.json", "--classes", "red,green", *options)
    assert (code, printed) == (1, "")
    assert message in errors


def test_a_head_has_no_texts_to_weigh(photos):
    Path("head.safetensors").touch()
    code, _, errors = run("classify", "new", "--soup", "head.safetensors", "--weigh", "autoclip")
    assert code == 1
    assert "a head has no texts to weigh; leave --weigh out" in errors
