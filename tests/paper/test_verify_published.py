"""`wsoup verify published`: figures counted by plain loops agree, and whatever is wrong on purpose is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import open_clip
import pytest
import torch
from small_world import TINY_CONFIG
from torch import Tensor

from wsoup.core.class_texts import normalize
from wsoup.evaluate.testsets import TestSet
from wsoup.paper.published import PublishedDataset, PublishedEncoder, names_of, templates_of
from wsoup.paper.published_counts import count
from wsoup.paper.verify_published import Compared, compare, shown, usual_causes
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder

PETS = PublishedDataset(
    "oxford_pets", "Oxford-IIIT Pet", "pets", n_images=14_800, n_classes=37, metric="mean_per_class"
)
CARS = PublishedDataset("stanford_cars", "Stanford Cars", "cars", n_images=3_000, n_classes=3, metric="accuracy")
DATASETS = {"pets": PETS, "cars": CARS}
NAMES = {"pets": list(names_of(PETS)), "cars": ["Audi TT", "BMW X3", "Jeep Compass"]}


def plain_classes(encoder: Encoder, names: Sequence[str], templates: Sequence[str]) -> Tensor:
    """What open_clip's `build_zero_shot_classifier` makes, one class at a time with whole contexts."""
    classes = []
    for name in names:
        texts = encoder.encode_texts([template.replace("{}", name) for template in templates])
        classes.append(normalize(texts.mean(dim=0)))
    return torch.stack(classes)


def plain_figure(test: TestSet, classes: Tensor, metric: str) -> float:
    """Per cent, one image at a time."""
    right: dict[int, list[bool]] = {}
    for image, label in zip(test.image_features, test.labels.tolist(), strict=True):
        right.setdefault(label, []).append(int((classes @ image).argmax()) == label)
    if metric == "accuracy":
        return 100.0 * sum(map(sum, right.values())) / sum(map(len, right.values()))
    return 100.0 * float(np.mean([sum(answers) / len(answers) for answers in right.values()]))


def images(encoder: Encoder, name: str) -> TestSet:
    """Images about the texts of their classes; of some classes there are more, and these are harder."""
    dataset = DATASETS[name]
    generator = torch.Generator().manual_seed(1)
    n = dataset.n_classes
    labels = (torch.arange(dataset.n_images) % (2 * n)).clamp(max=n - 1)
    classes = plain_classes(encoder, NAMES[name], templates_of(dataset))
    apart = (classes - classes.mean(dim=0)).norm(dim=1).mean()
    noise = torch.randn(dataset.n_images, classes.shape[1], generator=generator)
    hard = 1.0 + (labels == n - 1)
    features = normalize(classes[labels] + 0.12 * apart * hard[:, None] * noise)
    rows = np.arange(dataset.n_images)
    return TestSet(name, "xd", "a photo of a {}.", NAMES[name], features, labels, rows, {})


@pytest.fixture(scope="module")
def tests(tiny_encoder) -> dict[str, TestSet]:
    return {name: images(tiny_encoder, name) for name in DATASETS}


@pytest.fixture(scope="module")
def published(tiny_encoder, tests) -> PublishedEncoder:
    """The figures of the tiny encoder, by plain loops."""
    accuracy = {}
    for name, dataset in DATASETS.items():
        classes = plain_classes(tiny_encoder, NAMES[name], templates_of(dataset))
        accuracy[dataset.name] = plain_figure(tests[name], classes, dataset.metric)
    return PublishedEncoder("tiny-clip", "tiny", 1.0, 1.0, 50.0, accuracy)


def compared(tests: dict[str, TestSet], published: PublishedEncoder, encoder: Encoder) -> dict[str, Compared]:
    known = {name: (test, DATASETS[name]) for name, test in tests.items()}
    lines = compare(known, text_encoder=PromptEncoder.of(encoder), published=published)
    return {line.dataset: line for line in lines}


def causes(lines: dict[str, Compared], *given: str, twin: PublishedEncoder | None = None) -> list[str]:
    return usual_causes(list(lines.values()), given=given, twin=twin)


def wrong(published: PublishedEncoder, **accuracy: float) -> PublishedEncoder:
    """The figures with another one for some datasets."""
    return replace(published, accuracy={**published.accuracy, **accuracy})


def test_figures_by_plain_loops_agree_to_the_image(tests, published, tiny_encoder):
    lines = compared(tests, published, tiny_encoder)
    for line in lines.values():
        assert abs(line.difference) < 1e-9
        assert line.agrees
        assert line.within < line.resized
    assert causes(lines) == []
    text = "\n".join(shown(list(lines.values()), published=published, twin=None))
    assert "pets, mean over classes: theirs" in text
    assert "cars, accuracy: theirs" in text
    assert text.endswith("2 of 2 figures agree")


def test_a_mean_over_classes_that_was_counted_over_images_is_named(tests, published, tiny_encoder):
    classes = plain_classes(tiny_encoder, NAMES["pets"], templates_of(PETS))
    over_images = plain_figure(tests["pets"], classes, "accuracy")
    lines = compared(tests, wrong(published, oxford_pets=over_images), tiny_encoder)
    assert lines["pets"].differs
    assert lines["cars"].agrees
    assert causes(lines) == ["pets: metric: their figure is ours counted over all images"]


def test_other_spellings_of_class_names_are_named(tests, published, tiny_encoder):
    lower = {**tests, "pets": replace(tests["pets"], class_names=[name.lower() for name in NAMES["pets"]])}
    upper = {**tests, "pets": replace(tests["pets"], class_names=[name.upper() for name in NAMES["pets"]])}
    for changed in (lower, upper):
        lines = compared(changed, published, tiny_encoder)
        if lines["pets"].differs:  # the tokenizer of CLIP lowercases
            assert causes(lines)[0].startswith("pets: class names: 37 of 37 are not spelled as theirs (")
    breeds = [f"{name} dog" if i % 2 else name for i, name in enumerate(NAMES["pets"])]
    lines = compared({**tests, "pets": replace(tests["pets"], class_names=breeds)}, published, tiny_encoder)
    assert lines["pets"].differs
    (cause,) = causes(lines)
    assert cause.startswith("pets: class names: 18 of 37 are not spelled as theirs ('American Bulldog dog', theirs 'Am")


def test_a_figure_of_one_template_is_named(tests, published, tiny_encoder):
    for template in ("a photo of a {}.", "a car of the make {}."):
        changed = {**tests, "cars": replace(tests["cars"], template=template)}
        classes = plain_classes(tiny_encoder, NAMES["cars"], [template])
        of_one = plain_figure(tests["cars"], classes, "accuracy")
        lines = compared(changed, wrong(published, stanford_cars=of_one), tiny_encoder)
        assert lines["cars"].differs
        assert causes(lines) == [f"cars: templates: their figure is of {template!r} alone"]


def test_another_split_is_not_compared(tests, published, tiny_encoder):
    pets = tests["pets"]
    half = replace(pets, image_features=pets.image_features[:7000], labels=pets.labels[:7000])
    lines = compared({**tests, "pets": half}, wrong(published, oxford_pets=1.0), tiny_encoder)
    assert not lines["pets"].differs
    assert lines["pets"].other_images == "7,000 test images instead of 14,800"
    assert causes(lines) == []
    text = "\n".join(shown(list(lines.values()), published=published, twin=None))
    assert "not comparable: 7,000 test images instead of 14,800" in text
    assert text.endswith("1 of 1 figures agree")


def on_the_border(test: TestSet, encoder: Encoder) -> TestSet:
    """Images that are right by a little, so that any change of the texts shows: a trained model is as sensitive."""
    classes = plain_classes(encoder, test.class_names, templates_of(DATASETS[test.name]))
    nearest = (classes @ classes.T).fill_diagonal_(-1).argmax(dim=1)
    own, other = classes[test.labels], classes[nearest[test.labels]]
    return replace(test, image_features=normalize(0.51 * own + 0.49 * other))


def test_another_activation_is_the_first_cause_where_all_rows_are_lower(tests, published, tiny_encoder):
    """The same weights, built with QuickGELU instead of GELU."""
    borders = {name: on_the_border(test, tiny_encoder) for name, test in tests.items()}
    right = wrong(published, oxford_pets=100.0, stanford_cars=100.0)
    assert causes(compared(borders, right, tiny_encoder)) == []
    model = open_clip.model.CLIP(**{**TINY_CONFIG, "quick_gelu": True}).eval()
    model.load_state_dict(tiny_encoder.model.state_dict())
    lines = compared(borders, right, replace(tiny_encoder, model=model))
    assert all(line.differs for line in lines.values())
    assert causes(lines)[0] == "activation (QuickGELU goes by the tag of the weights), or other weights"
    ours = {line.of: line.ours for line in lines.values()}
    twin = replace(published, model="tiny-clip-quickgelu", accuracy=ours)
    assert causes(lines, twin=twin) == [
        "activation: these are the figures of tiny-clip-quickgelu / tiny, the same weights with another activation"
    ]
    first, *_ = shown(list(lines.values()), published=right, twin=twin)
    assert first == "tiny-clip / tiny with OpenAI's templates, as open_clip publishes it (data/published)"


def test_other_images_of_every_dataset_are_the_first_cause_where_rows_differ_by_little(tests, published, tiny_encoder):
    """As another resizing does, some images move a little: by so much as half precision does not explain."""
    generator = torch.Generator().manual_seed(2)
    as_theirs, resized, accuracy = {}, {}, {}
    for name, test in tests.items():
        features = test.image_features.clone()
        features[::60] = on_the_border(test, tiny_encoder).image_features[::60]
        noise = torch.randn(features.shape, generator=generator)
        as_theirs[name] = replace(test, image_features=features)
        resized[name] = replace(test, image_features=normalize(features + 0.01 * noise))
        classes = plain_classes(tiny_encoder, NAMES[name], templates_of(DATASETS[name]))
        accuracy[DATASETS[name].name] = plain_figure(as_theirs[name], classes, DATASETS[name].metric)
    right = wrong(published, **accuracy)
    assert causes(compared(as_theirs, right, tiny_encoder)) == []
    lines = compared(resized, right, tiny_encoder)
    assert all(line.differs and abs(line.difference) < line.resized for line in lines.values())
    first, _ = causes(lines, "encoder.interpolation: bilinear")
    assert first.startswith("images: encoder.interpolation: bilinear; their images are as the model's own")
    one = {"pets": lines["pets"], "cars": compared(as_theirs, right, tiny_encoder)["cars"]}
    assert causes(one, "encoder.interpolation: bilinear") == [f"pets: {first}"], "the other one agrees by chance"
    assert causes(one)[0].startswith("pets alone: resizing or decoding of its images")
    first, _ = causes(lines)  # which keys of params.yaml would say, if any did
    assert first == "images: resizing, decoding (encoder.decoding) or normalisation"


def test_wrong_labels_of_one_dataset_are_a_cause_of_its_own(tests, published, tiny_encoder):
    cars = tests["cars"]
    lines = compared({**tests, "cars": replace(cars, labels=cars.labels.roll(1))}, published, tiny_encoder)
    assert causes(lines) == ["cars alone: its test images or labels, its class names, or another version of it"]


def test_a_dataset_without_a_figure_is_left_out(tests, published, tiny_encoder):
    lines = compared(tests, replace(published, accuracy={"stanford_cars": 95.0}), tiny_encoder)
    assert set(lines) == {"cars"}


def test_classes_without_images_do_not_count_and_near_ties_move_by_their_root(tiny_encoder):
    """Two classes of 4 and 1 images, one of the four is a near tie: 3 sqrt(1) / 5 and 3 sqrt(1 / 16) / 2."""
    text_encoder = PromptEncoder.of(tiny_encoder)
    names = ["red cat", "blue dog", "small bird"]
    classes = plain_classes(tiny_encoder, names, ["a photo of a {}."])
    between = normalize((classes[0] + classes[1])[None])
    features = torch.cat([classes[[0, 0, 0, 1]], between])
    labels = torch.tensor([0, 0, 0, 1, 0])
    test = TestSet("x", "xd", "a photo of a {}.", names, features, labels, np.arange(5), {})
    counted = count(test, text_encoder=text_encoder, names=names, templates=["a photo of a {}."])
    assert counted.n.tolist() == [4, 1, 0]
    assert counted.near.tolist() == [1, 0, 0]
    right = counted.right.tolist()
    assert counted.figure("mean_per_class") == pytest.approx(50.0 * (right[0] / 4 + 1))
    assert counted.within("accuracy", resized=False) == pytest.approx(100 * 3 / 5 + 0.005)
    assert counted.within("mean_per_class", resized=False) == pytest.approx(100 * 3 / 4 / 2 + 0.005)
