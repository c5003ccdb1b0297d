"""Any value for any argument of the public functions: a valid result, or a WsoupError of one line before any work."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from api_world import DESCRIPTORS, NAMES, WORDS, photos
from PIL import Image
from said import unsaid

import wsoup
from wsoup.api import soups
from wsoup.base.errors import LONGEST, DataError, MismatchError, ModelError, ParamsError, PoolError, WsoupError
from wsoup.core.member import Member
from wsoup.photos.estimation import Adapted

ENCODER = {"model": "m", "pretrained": None}
SOUP = wsoup.Soup("greedy", 1, "a photo of a {}.", ENCODER, (Member("sharp"), Member("flat")))

SHORT = {"k0": 2, "k1": 4, "patience": 2, "m": 2, "max_words": 2}
"""A search that is as short as its settings allow: it is run for each value that is valid."""


class Raises:
    """An object that raises whenever it is used."""

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise RuntimeError("no array\nat all")

    def __repr__(self) -> str:
        raise RuntimeError("no name")


VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "0": lambda: 0,
    "-1": lambda: -1,
    "2": lambda: 2,
    "1.5": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "10**30": lambda: 10**30,
    "1e39": lambda: 1e39,
    "10**5000": lambda: 10**5000,
    "complex": lambda: 1j,
    "empty_text": lambda: "",
    "text": lambda: "a",
    "one_placeholder": lambda: "a {}",
    "two_placeholders": lambda: "{}{c}",
    "NUL": lambda: "a {}\0",
    "half_a_character": lambda: "a {}\ud800",
    "10,001_letters": lambda: "a {}" + "b" * 10_001,
    "escape": lambda: "\x1b]0;x\a {}",
    "bytes": lambda: b"a {}",
    "path": lambda: Path("nowhere/x.png"),
    "empty_list": list,
    "list_of_None": lambda: [None, None],
    "list_of_1": lambda: [1],
    "list_of_text": lambda: ["a", "b"],
    "list_twice": lambda: ["a", "a"],
    "list_of_NUL": lambda: ["a\0", "b"],
    "list_of_long": lambda: ["a" * 10_001],
    "list_of_halves": lambda: ["\ud800", "b"],
    "list_of_lists": lambda: [["a"], ["b"]],
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "tuple": lambda: ("a", "b", "c", "d"),
    "set": lambda: {"cat", "dog", "bird", "fish"},
    "dict": lambda: {"cat": 0, "dog": 1, "bird": 2, "fish": 3},
    "dict_of_lists": lambda: {"model": ["m"]},
    "generator": lambda: (name for name in NAMES),
    "function": lambda: len,
    "class": lambda: dict,
    "object": object,
    "raises": Raises,
    "no_tensor": lambda: torch.zeros(0),
    "number_tensor": lambda: torch.tensor(0.5),
    "int_tensor": lambda: torch.ones(60, 16, dtype=torch.int64),
    "bool_tensor": lambda: torch.ones(60, dtype=torch.bool),
    "complex_tensor": lambda: torch.ones(60, 16, dtype=torch.complex64),
    "sparse_tensor": lambda: torch.eye(60, 16).to_sparse(),
    "csr_tensor": lambda: torch.eye(60, 16).to_sparse_csr(),
    "meta_tensor": lambda: torch.ones(60, 16, device="meta"),
    "meta_number": lambda: torch.ones((), device="meta"),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(60, 16), 0.1, 0, torch.quint8),
    "three_axes": lambda: torch.ones(60, 16, 1),
    "needs_grad": lambda: torch.eye(60, 16).add(0.1).requires_grad_(),
    "half": lambda: torch.eye(60, 16).add(0.1).half(),
    "double": lambda: torch.eye(60, 16).add(0.1).double().numpy(),
    "too_large": lambda: torch.eye(60, 16).add(0.1) * 1e25,
    "too_small": lambda: torch.eye(60, 16).add(0.1) * 1e-30,
    "beyond_float": lambda: np.full((60, 16), 1e300),
    "NaNs": lambda: np.full((60, 16), np.nan),
    "zeros": lambda: torch.zeros(60, 16),
    "zero_classifier": lambda: torch.zeros(16, 4),
    "classifier_with_a_zero": lambda: torch.eye(16, 4) * torch.tensor([1.0, 1, 1, 0]),
    "identity": lambda: torch.eye(16, 4),
    "masked": lambda: np.ma.masked_greater(np.eye(60, 16) + 0.1, 1),
    "masked_labels": lambda: np.ma.masked_equal(np.arange(60) % 4, 2),
    "object_array": lambda: np.array([object()] * 60),
    "record_array": lambda: np.zeros(60, dtype=[("x", "f4")]),
    "dates": lambda: np.zeros(60, dtype="datetime64[s]"),
    "byte_order": lambda: np.eye(60, 16).astype(">f4") + np.float32(0.1),
    "long_double": lambda: np.eye(60, 16, dtype=np.longdouble),
    "uint64": lambda: np.full(60, 2**64 - 1, dtype=np.uint64),
    "float_labels": lambda: np.zeros(60),
    "labels": lambda: np.arange(60) % 4,
    "names": lambda: [NAMES[i % 4] for i in range(60)],
    "mixed_names": lambda: ["cat", 1, None, ["x"]] * 15,
    "numpy_int": lambda: np.int64(3),
    "numpy_bool": lambda: np.True_,
    "numpy_text": lambda: np.str_("a {}"),
    "module": lambda: torch.nn.Linear(1, 1),
    "soup": lambda: SOUP,
    "member": lambda: Member("x"),
    "members": lambda: (Member("x"), Member(3)),  # type: ignore[arg-type]
    "lists_of_tokens": lambda: lambda texts: [[1, 2] for _ in texts],
    "float_tokens": lambda: lambda texts: torch.rand(len(texts), 77),
    "one_row": lambda: lambda texts: torch.ones(1, 77, dtype=torch.long),
    "no_tokens": lambda: lambda texts: torch.ones(len(texts), 0, dtype=torch.long),
    "unknown_tokens": lambda: lambda texts: torch.full((len(texts), 77), 10**6),
}
"""By name, so that a failure says which."""
DOES_NOT_ENCODE: dict[str, Any] = {
    "None": lambda self, x: None,
    "list": lambda self, x: [[1.0, 2.0]] * len(x),
    "one_row": lambda self, x: torch.ones(1, 16),
    "three_axes": lambda self, x: torch.ones(len(x), 4, 4),
    "raises": lambda self, x: 1 / 0,
    "no_features": lambda self, x: torch.ones(len(x), 0),
    "complex": lambda self, x: torch.ones(len(x), 16, dtype=torch.complex64),
    "meta": lambda self, x: torch.ones(len(x), 16, device="meta"),
    "NaN": lambda self, x: torch.full((len(x), 16), float("nan")),
}


@pytest.fixture(scope="module", autouse=True)
def few_common_words() -> Iterator[None]:
    """A small default pool of words: a search in 10,000 takes half a minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(soups, "COMMON_WORDS", 100)
        yield


@pytest.fixture(scope="module")
def calls(tiny_encoder: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Callable[..., Any], dict]]:
    """The public functions by name, each with valid arguments."""
    images_of_classes = photos(tiny_encoder)
    picture = tmp_path_factory.mktemp("pictures") / "x.png"
    Image.new("RGB", (8, 8), (200, 30, 30)).save(picture)
    towers = {"model": tiny_encoder.model, "tokenizer": tiny_encoder.tokenizer}
    names = {"class_names": NAMES, **towers}
    images = {"features": images_of_classes.features, "labels": images_of_classes.labels}
    classifier = wsoup.Soup.of(SOUP).classifier(**names)
    search = {**images, **names, "template": "a {}.", "precision": "fp32", "progress": False, "period": True}
    head = wsoup.fit_head(**images, **names)
    adapted = wsoup.adapt(images_of_classes.features, classifier=classifier)
    texts = wsoup.PromptEncoder(**towers, device="cpu")
    soup = {**SOUP.as_json(), "members": (Member("x"),)}
    place = {"path": tmp_path_factory.mktemp("saved") / "x"}
    return {
        "word_soup": (wsoup.word_soup, {**search, **SHORT, "words": WORDS, "seed": 1, "encoder": None}),
        "descriptor_soup": (partial(wsoup.descriptor_soup, **search, seed=1), {"descriptors": DESCRIPTORS, "m": 2}),
        "score_texts": (partial(wsoup.score_texts, **search), {"texts": DESCRIPTORS}),
        "common_words": (wsoup.common_words, {"count": 3}),
        "zero_shot_accuracy": (
            wsoup.zero_shot_accuracy,
            {**images, "classifier": classifier, "baseline": classifier, "class_names": NAMES, "confidence": 0.9},
        ),
        "fit_head": (
            wsoup.fit_head,
            {**images, **names, "soup": None, "kind": "ridge", "template": None, "precision": "fp32", "encoder": None},
        ),
        "adapt": (
            wsoup.adapt,
            {"features": images_of_classes.features, "classifier": classifier, "model": None, "logit_scale": 100.0},
        ),
        "encode_images": (
            wsoup.encode_images,
            {
                "paths": [str(picture)],
                "model": tiny_encoder.model,
                "preprocess": tiny_encoder.preprocess,
                "batch_size": 2,
                "precision": "fp32",
                "on_bad_image": "nan",
                "progress": False,
            },
        ),
        "classifier": (wsoup.Soup.of(SOUP).classifier, {**names, "template": None, "precision": "fp32"}),
        "Soup": (lambda **how: wsoup.Soup(**how).classifier(**names), soup),
        "Soup.templates": (SOUP.templates, {"template": None}),
        "Soup.save": (SOUP.save, place),
        "Soup.load": (wsoup.Soup.load, place),
        "Soup.from_json": (partial(wsoup.Soup.from_json, origin="x"), {"value": SOUP.as_json()}),
        "Head.predict": (head.predict, {"features": images_of_classes.features, "at_least": 0.5}),
        "Head.predict_proba": (head.predict_proba, {"features": images_of_classes.features}),
        "Head.threshold": (head.threshold, {"precision": 0.9}),
        "Head.save": (head.save, place),
        "Head.load": (wsoup.Head.load, place),
        "Adapted.predict": (adapted.predict, {"features": images_of_classes.features}),
        "Adapted.predict_proba": (adapted.predict_proba, {"features": images_of_classes.features}),
        "PromptEncoder": (
            wsoup.PromptEncoder,
            {**towers, "device": "cpu", "dtype": None, "batch_tokens": 512, "cache_bytes": 1 << 20},
        ),
        "PromptEncoder.encode": (texts.encode, {"prompts": ["a"]}),
        "PromptEncoder.encode_grid": (
            texts.encode_grid,
            {"prefixes": ["a"], "suffixes": ["b"], "token_offset": 0, "offset_formula": "wording"},
        ),
    }


def finite(result: Any) -> bool:
    """Whether a result is valid: finite numbers, or a soup that can be saved."""
    if isinstance(result, torch.Tensor):
        return not result.is_floating_point() or bool(torch.isfinite(result).all())
    if isinstance(result, Adapted):
        return finite(result.classifier)
    if isinstance(result, wsoup.Soup):
        return len(result.members) > 0 and wsoup.Soup.from_json(result.as_json(), origin="made") == result
    return True


def answer(call: Callable[..., Any], how: dict[str, Any], changed: dict[str, Callable[[], Any]]) -> None:
    """Call it: a valid result, or an error of one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # features of another length; torch's own of odd tensors
        result, message = None, ""
        try:
            result = call(**how, **{name: make() for name, make in changed.items()})
        except WsoupError as error:
            message = str(error) or "an error without a word\n"
    assert len(message.splitlines()) <= 1
    assert len(message) <= LONGEST + 200
    assert finite(result)


def test_one_argument_of_any_type(calls: dict, in_tmp: Path) -> None:
    """Each of VALUES for each argument."""
    wrong = {}
    for name, (call, how) in calls.items():
        for argument in how:
            others = {key: value for key, value in how.items() if key != argument}
            for value, make in VALUES.items():
                try:
                    answer(call, others, {argument: make})
                except (Exception, Warning) as error:
                    wrong[name, argument, value] = f"{type(error).__name__}: {str(error)[:150]}"
    assert wrong == {}


class Towers:
    """An object like a model, with a given encoding function."""

    def __init__(self, encode: Callable[..., Any]) -> None:
        self.encode = encode

    def encode_text(self, tokens: torch.Tensor) -> Any:
        return self.encode(tokens)

    encode_image = encode_text


def test_a_model_that_does_not_encode(calls: dict, in_tmp: Path) -> None:
    line = re.compile(r"^(model\.encode|text features of this|.*its features are not)")
    for name in ("word_soup", "score_texts", "fit_head", "encode_images", "classifier"):
        call, how = calls[name]
        table = [(Towers(encode), line) for encode in DOES_NOT_ENCODE.values()]
        assert unsaid(table, lambda model, call=call, how=how: call(**how | {"model": model})) == []


# ----------------------------------------------------------------------------------------------- each by its number


def test_the_length_of_features_does_not_change_the_soup(calls: dict) -> None:
    call, how = calls["word_soup"]
    expected = call(**how)
    for factor in (1e25, 1e-25):
        with pytest.warns(UserWarning, match=r"features are not of length 1 \(off by up to .*\): they are normalised"):
            assert call(**{**how, "features": how["features"] * factor}) == expected


@pytest.mark.parametrize("kind", ["str", "string", "category", "object", "int64", "Int64", "category of numbers"])
def test_labels_of_pandas_are_names_or_numbers(calls: dict, kind: str) -> None:
    pandas = pytest.importorskip("pandas")
    call, how = calls["zero_shot_accuracy"]
    expected = call(**how)
    numbers = pandas.Series(how["labels"].numpy())
    names = pandas.Series([NAMES[label] for label in how["labels"].tolist()])
    kinds = {"category of numbers": numbers.astype("category")}
    labels = kinds.get(kind, (numbers if kind in ("int64", "Int64") else names).astype(kind.split()[0]))
    assert call(**{**how, "labels": labels, "class_names": pandas.Series(NAMES)}) == expected


NAMED = [
    ("score_texts", "class_names", "set", DataError, "class_names is a set, which has no order; give a list"),
    ("score_texts", "features", "masked", DataError, "16 of its values are masked"),
    ("score_texts", "labels", "masked_labels", DataError, "15 of its values are masked"),
    ("word_soup", "features", "sparse_tensor", DataError, r"features is .*\(a sparse, quantized or meta tensor"),
    ("word_soup", "words", "list_of_1", ParamsError, r"words\[0\] is 1; expected text"),
    ("word_soup", "words", "list_of_NUL", ParamsError, r"words\[0\] is .*it is blank, or holds NUL"),
    ("word_soup", "words", "list_of_long", ParamsError, r"words\[0\] is 'aaa.*a text of 10000 characters or fewer"),
    ("word_soup", "tokenizer", "lists_of_tokens", ModelError, r"tokenizer gives \[\[1, 2\], \[1, 2\]\] for 2"),
    ("Soup", "members", "empty_list", ParamsError, "members is .*a list of 1 or more"),
    ("Soup", "template", "NUL", ParamsError, "it is blank, or holds NUL"),
    ("Soup", "members", "members", ParamsError, r"members\[1\].text is 3; expected text"),
]


def test_one_line_names_the_argument(calls: dict) -> None:
    for name, argument, value, error, message in NAMED:
        call, how = calls[name]
        with pytest.raises(error, match=message) as raised:
            call(**how | {argument: VALUES[value]()})
        assert "\n" not in str(raised.value)


def test_what_people_take_for_a_list_of_templates_is_refused() -> None:
    with pytest.raises(ParamsError, match=r"^templates is 'openai7'; expected a list of templates, each with one \{\}"):
        wsoup.Soup.from_templates("openai7")
    with pytest.raises(ParamsError, match=r"^templates\[0\] is a function; expected text with one \{\}: \[function"):
        wsoup.Soup.from_templates(open_clip.OPENAI_IMAGENET_TEMPLATES)


def test_a_part_of_an_argument_is_named_as_python_writes_it() -> None:
    how = {"class_names": ["a"], "model": None, "tokenizer": len}
    with pytest.raises(ParamsError, match=r"^period is 'yes'; expected True or False"):
        wsoup.score_texts([[1.0]], [0], texts=["a"], period="yes", **how)
    with pytest.raises(ParamsError, match=r"^encoder\['model'\] is 3; expected text"):
        wsoup.fit_head([[1.0]], [0], encoder={"model": 3}, **how)
    with pytest.raises(ParamsError, match=r"^path is None; expected the path of a file"):
        wsoup.Soup.load(None)


def test_the_name_of_a_model_is_not_the_model() -> None:
    with pytest.raises(ModelError, match=r"^model is 'ViT-B-32'; expected the model itself, as open_clip.create_model"):
        wsoup.adapt([[1.0, 0.0]], classifier=[[1.0, 0.0], [0.0, 1.0]], model="ViT-B-32")


def test_a_missing_argument_is_a_type_error() -> None:
    """It names the function, and all that it needs: by name, or by its place."""
    needs = r"^encode_images\(\) is called wrongly: missing a required argument: 'model'; it needs paths, model=$"
    with pytest.raises(TypeError, match=needs):
        wsoup.encode_images(["photo.jpg"])
    soup = wsoup.Soup.load("paper:word")
    with pytest.raises(TypeError, match=r"^Soup\.classifier\(\) .*'model'; it needs class_names=, model=, token"):
        soup.classifier(class_names=["cat"])
    with pytest.raises(TypeError, match=r"^Soup\(\) is called wrongly: .*; it needs kind, seed, template, "):
        wsoup.Soup("chains")
    with pytest.raises(TypeError, match=r"^word_soup\(\) is called wrongly: too many positional arguments; it needs "):
        wsoup.word_soup([[1.0]], [0], ["cat"])


def test_an_error_of_python_speaks_of_its_arguments_and_not_of_params_yaml(tmp_path) -> None:
    with pytest.raises(PoolError, match=r"^count is 1000000000, but wordfreq has \d+ such words; lower it$"):
        wsoup.common_words(10**9)
    broken = tmp_path / "soup.json"
    broken.write_text('{"kind": ')
    with pytest.raises(MismatchError, match=r"is not JSON .*; make it again with wsoup\.word_soup and the like"):
        wsoup.Soup.load(broken)
