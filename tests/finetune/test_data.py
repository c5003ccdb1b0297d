"""Few-shot batches: distinct classes, all images in turn, a function of seed and iteration."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from finetune_cases import finetune_params
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision.transforms import RandomResizedCrop

from wsoup.base.errors import ChangedError, DataError, MissingError
from wsoup.core.draws import named_generator
from wsoup.disk.store import sha256_file
from wsoup.finetune import batches
from wsoup.finetune.augment import FewShotImages, crop_box
from wsoup.finetune.batches import ClassImages, batch_positions, wrapped_positions
from wsoup.finetune.loading import Batches
from wsoup.finetune.params import AugmentParams
from wsoup.finetune.training_set import TrainingSet, start_words

LABELS = np.repeat(np.arange(5), 3)
IMAGES = ClassImages(LABELS)


@given(seed=st.integers(0, 9), iteration=st.integers(0, 500), size=st.integers(1, 9))
@settings(max_examples=50, deadline=None)
def test_a_batch_has_distinct_classes_and_depends_on_seed_and_iteration_alone(seed, iteration, size):
    batch = batch_positions(IMAGES, batch_size=size, seed=seed, iteration=iteration)
    assert len(batch) == min(size, 5)
    assert len(set(LABELS[batch])) == len(batch)
    assert np.array_equal(batch, batch_positions(IMAGES, batch_size=size, seed=seed, iteration=iteration))


def test_every_class_and_image_appears_before_any_repeats():
    """Five classes in batches of five: after three rounds every image was seen once, after six twice."""
    seen = Counter(int(i) for t in range(6) for i in batch_positions(IMAGES, batch_size=5, seed=1, iteration=t))
    assert set(seen.values()) == {2}
    half = Counter(int(i) for t in range(3) for i in batch_positions(IMAGES, batch_size=5, seed=1, iteration=t))
    assert set(half.values()) == {1}
    assert len({tuple(batch_positions(IMAGES, batch_size=5, seed=seed, iteration=0)) for seed in range(9)}) > 1


def orders(sampler, *, seed: int, iterations: range) -> dict[int, list[int]]:
    """In which order each of five classes shows its images, all five in every batch."""
    shown: dict[int, list[int]] = {c: [] for c in range(5)}
    for t in iterations:
        for i in sampler(IMAGES, batch_size=5, seed=seed, iteration=t).tolist():
            shown[int(LABELS[i])].append(i % 3)
    return shown


@pytest.mark.parametrize("sampler", [batch_positions, wrapped_positions])
def test_classes_rounds_and_seeds_each_have_an_order_of_their_own(sampler):
    """Of three images there are six orders: five classes, the next three rounds or another seed hardly repeat them."""
    first, later, other = (
        orders(sampler, seed=1, iterations=range(3)),
        orders(sampler, seed=1, iterations=range(3, 6)),
        orders(sampler, seed=2, iterations=range(3)),
    )
    assert len({tuple(images) for images in first.values()}) > 1
    assert first != later
    assert first != other
    classes = [tuple(LABELS[sampler(IMAGES, batch_size=5, seed=1, iteration=t)].tolist()) for t in range(6)]
    assert len(set(classes)) > 3, "each round visits the classes in a new order"
    of_another_seed = [tuple(LABELS[sampler(IMAGES, batch_size=5, seed=2, iteration=t)].tolist()) for t in range(6)]
    assert classes != of_another_seed


def test_wrapped_rounds_continue_within_a_batch_and_an_epoch_has_each_image_once():
    """Five classes of three in batches of four: rounds end at positions 5, 10 and 15, of which 12 are used."""
    drawn = [wrapped_positions(IMAGES, batch_size=4, seed=1, iteration=t) for t in range(6)]
    for epoch in (drawn[:3], drawn[3:]):
        places = np.concatenate(epoch)
        assert len(set(places.tolist())) == 12
        assert [len(set(LABELS[places[i : i + 5]])) for i in (0, 5, 10)] == [5, 5, 2]
    assert drawn[0].tolist() != drawn[3].tolist()
    several = [wrapped_positions(IMAGES, batch_size=4, seed=seed, iteration=1) for seed in range(20)]
    assert 0 < sum(len(set(LABELS[batch])) < 4 for batch in several) < 20
    large = wrapped_positions(IMAGES, batch_size=7, seed=1, iteration=0)
    assert len(set(large.tolist())) == 7
    assert sorted(Counter(LABELS[large].tolist()).values()) == [1, 1, 1, 2, 2]


def drawn_by_looking(labels: np.ndarray, *, batch_size: int, seed: int, iteration: int) -> list[int]:
    """`batch_positions`, looking for every class among all labels."""
    present = sorted(set(labels.tolist()))
    size = min(batch_size, len(present))
    turn, step = divmod(iteration, len(present) // size)
    classes = named_generator(seed, "classes", turn).permutation(len(present))
    positions = []
    for c in classes[step * size : (step + 1) * size].tolist():
        images = [i for i, label in enumerate(labels) if label == present[c]]
        cycle, index = divmod(turn, len(images))
        positions.append(images[named_generator(seed, "images", c, cycle).permutation(len(images))[index]])
    return positions


def wrapped_by_looking(labels: np.ndarray, *, batch_size: int, seed: int, iteration: int) -> list[int]:
    """`wrapped_positions`, looking for every class among all labels."""
    present = sorted(set(labels.tolist()))
    size = min(batch_size, len(labels))
    epoch, batch = divmod(iteration, len(labels) // size)
    positions = []
    for place in range(batch * size, (batch + 1) * size):
        turn, rank = divmod(place, len(present))
        c = int(named_generator(seed, "rounds", epoch, turn).permutation(len(present))[rank])
        images = [i for i, label in enumerate(labels) if label == present[c]]
        order = named_generator(seed, "images of a round", c, epoch).permutation(len(images))
        positions.append(images[order[turn % len(images)]])
    return positions


SAMPLERS = [(batch_positions, drawn_by_looking), (wrapped_positions, wrapped_by_looking)]


@pytest.mark.parametrize(("sampler", "slow"), SAMPLERS)
def test_four_classes_of_three_images_in_batches_of_two_show_each_once_in_six_steps(sampler, slow):
    labels = np.array([3, 1, 2, 0] * 3)
    images = ClassImages(labels)
    seen = []
    for t in range(12):
        batch = sampler(images, batch_size=2, seed=1, iteration=t).tolist()
        assert batch == slow(labels, batch_size=2, seed=1, iteration=t)
        seen += batch
    assert sorted(seen[:12]) == list(range(12))
    assert sorted(seen[12:]) == list(range(12))


@pytest.mark.parametrize(("sampler", "slow"), SAMPLERS)
@given(
    labels=st.lists(st.integers(-2, 6), min_size=1, max_size=30),
    size=st.integers(1, 12),
    asked=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), min_size=1, max_size=8),
)
@settings(max_examples=60, deadline=None)
def test_the_same_images_are_drawn_as_by_looking_at_all_labels(sampler, slow, labels, size, asked):
    """Classes of any size, some labels unused; seeds and iterations in any order, as after a kill."""
    images = ClassImages(np.array(labels))
    for seed, iteration in asked:
        which = {"batch_size": size, "seed": seed, "iteration": iteration}
        assert sampler(images, **which).tolist() == slow(np.array(labels), **which)


@pytest.mark.parametrize("sampler", [batch_positions, wrapped_positions])
def test_a_step_looks_at_no_label_and_an_order_is_drawn_once(sampler, monkeypatch):
    """200 classes of two images in batches of ten: 40 steps draw an order of each class, and of the classes twice."""
    images = ClassImages(np.arange(400) % 200)
    drawn = []

    def counted(*names: object) -> np.random.Generator:
        drawn.append(names)
        return named_generator(*names)

    monkeypatch.setattr(batches, "named_generator", counted)
    monkeypatch.setattr(np, "flatnonzero", None)
    monkeypatch.setattr(np, "unique", None)
    for t in range(40):
        sampler(images, batch_size=10, seed=1, iteration=t)
    assert len(drawn) == len(set(drawn)) == 202


@given(
    width=st.integers(1, 60),
    height=st.integers(1, 60),
    draws=st.lists(st.tuples(*[st.floats(0, 0.999)] * 4), min_size=1, max_size=3),
)
@settings(max_examples=100, deadline=None)
def test_a_crop_is_inside_the_image(width, height, draws):
    left, top, right, bottom = crop_box(width, height, np.array(draws), share=(0.08, 1.0))
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height


def test_crops_by_hand():
    """The whole area at aspect 1 is the image; a quarter has half its sides; if none fits, the centre."""
    square = np.log(4 / 3) / np.log(16 / 9)
    assert crop_box(40, 40, np.array([[1.0, square, 0.5, 0.5]]), share=(0.25, 1.0)) == (0, 0, 40, 40)
    assert crop_box(40, 40, np.array([[0.0, square, 0.0, 0.999]]), share=(0.25, 1.0)) == (0, 20, 20, 40)
    assert crop_box(40, 12, np.array([[1.0, square, 0.0, 0.0]]), share=(0.25, 1.0)) == (12, 0, 28, 12)
    whole_side = np.array([[0.0, square, 0.999, 0.999]])
    assert crop_box(20, 10, whole_side, share=(0.5, 1.0)) == (10, 0, 20, 10)
    assert crop_box(10, 20, whole_side, share=(0.5, 1.0)) == (0, 10, 10, 20)
    assert crop_box(400, 400, np.array([[0.0, 1.0, 0.0, 0.0]]), share=(0.25, 1.0)) == (0, 0, 231, 173)  # 4 : 3


def test_a_crop_is_drawn_by_share_of_the_area_aspect_and_place():
    """Half of the area, half way between 3:4 and 4:3 in logarithms, as far right and as far up as it goes."""
    box = crop_box(400, 400, np.array([[0.5, 0.5, 0.999, 0.0]]), share=(0.2, 0.8))
    side = round(400 * 0.5**0.5)
    assert side == 283
    assert box == (400 - side, 0, 400, side)


def one_image(encoder, path: Path, pixels: np.ndarray, augment: AugmentParams) -> list[torch.Tensor]:
    """What 200 iterations see of a picture."""
    Image.fromarray(pixels).save(path)
    source = TrainingSet([str(path)], [sha256_file(path)], np.array([0]), ["a"], "a {}.", [""])
    images = FewShotImages(source, encoder=encoder, augment=augment)
    return [images.normalized(images.batch(np.array([0]), seed=1, iteration=t)[0])[0] for t in range(200)]


def test_every_other_image_is_flipped(tiny_encoder, tmp_path):
    """Dark on the left, bright on the right; of 200 draws between 75 and 125 are the other way round."""
    dark_left = np.repeat(np.linspace(0, 250, 16, dtype=np.uint8)[None, :, None], 16, axis=0).repeat(3, axis=2)
    drawn = one_image(tiny_encoder, tmp_path / "a.png", dark_left, finetune_params().augment)
    assert 75 < sum(bool(pixels[..., 0].mean() > pixels[..., -1].mean()) for pixels in drawn) < 125


def test_pixels_depend_on_the_seed_and_the_iteration(tiny_encoder, tmp_path):
    """One image of one class, so that every batch has the same positions."""
    noise = np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    path = str(tmp_path / "a.png")
    source = TrainingSet([path], [sha256_file(path)], np.array([0]), ["a"], "a {}.", [""])
    shared = finetune_params()
    made = {"encoder": tiny_encoder, "method": shared.methods["coop"], "shared": shared}
    one, again, two = (Batches(source, seed=seed, **made) for seed in (1, 1, 2))
    assert torch.equal(one.load(0)[0], again.load(0)[0])
    assert not torch.equal(one.load(0)[0], one.load(1)[0])
    assert not torch.equal(one.load(0)[0], two.load(0)[0])


@pytest.mark.parametrize(("kind", "sampler"), [("distinct", batch_positions), ("wrapped", wrapped_positions)])
def test_params_name_the_sampler(tiny_encoder, colours, kind, sampler):
    shared = finetune_params(batches=kind)
    made = Batches(colours, encoder=tiny_encoder, method=shared.methods["coop"], shared=shared, seed=1)
    assert made.positions is sampler


@given(width=st.integers(1, 300), height=st.integers(1, 300))
def test_the_fallback_crop_equals_torchvisions(width, height):
    """No crop of fifty times the area fits."""
    top, left, h, w = RandomResizedCrop.get_params(torch.empty(3, height, width), [50.0, 50.0], [3 / 4, 4 / 3])
    box = crop_box(width, height, np.array([[1.0, 0.5, 0.0, 0.0]]), share=(50.0, 50.0))
    assert box == (left, top, left + w, top + h)


def test_a_crop_of_everything_equals_the_encoders_preprocessing(tiny_encoder, tmp_path):
    """With share 1 a square image of the model's size is not cropped, only normalised."""
    noise = np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    expected = tiny_encoder.preprocess(Image.fromarray(noise))
    crops = one_image(tiny_encoder, tmp_path / "a.png", noise, AugmentParams(crop=(1.0, 1.0), flip=False))
    assert any(torch.allclose(pixels, expected, atol=1e-6) for pixels in crops)


@pytest.mark.parametrize("interpolation", ["bilinear", "nearest", None])
def test_images_are_resized_as_the_encoder_says_and_bicubic_if_it_does_not(tiny_encoder, tmp_path, interpolation):
    """To its longer side: from 8 pixels to 24."""
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8))
    as_it_says = tiny_encoder.preprocessing | {"interpolation": interpolation, "size": [16, 24]}
    encoder = replace(tiny_encoder, preprocessing=as_it_says)
    crops = one_image(encoder, tmp_path / "a.png", np.asarray(noise), AugmentParams(crop=(1.0, 1.0), flip=False))
    resized = np.asarray(noise.resize((24, 24), Image.Resampling[(interpolation or "bicubic").upper()]))
    mean, std = (np.array(as_it_says[name], dtype=np.float32) for name in ("mean", "std"))
    expected = torch.from_numpy((resized.astype(np.float32) / 255 - mean) / std).permute(2, 0, 1)
    assert any(torch.allclose(pixels, expected, atol=1e-5) for pixels in crops)


@pytest.mark.parametrize(("decoding", "size"), [("stored", (4, 2)), ("upright", (2, 4))])
def test_training_decodes_images_as_the_encoder_does(tiny_encoder, tmp_path, decoding, size):
    """A picture that lies on its side."""
    image = Image.new("RGB", (4, 2))
    exif = image.getexif()
    exif[0x0112] = 6
    path = tmp_path / "a.png"
    image.save(path, exif=exif)
    source = TrainingSet([str(path)], [sha256_file(path)], np.array([0]), ["a"], "a {}.", [""])
    encoder = replace(tiny_encoder, preprocessing=tiny_encoder.preprocessing | {"decoding": decoding})
    images = FewShotImages(source, encoder=encoder, augment=AugmentParams(crop=(1.0, 1.0), flip=False))
    assert images._load(0).size == size


def test_augmented_pixels_do_not_depend_on_threads_or_on_memory(tiny_encoder, colours, monkeypatch):
    def pixels(threads: int, **options: int) -> torch.Tensor:
        monkeypatch.setenv("WSOUP_WORKERS", str(threads))
        source = FewShotImages(colours, encoder=tiny_encoder, augment=finetune_params().augment, **options)
        return source.batch(np.arange(12), seed=1, iteration=3)[0]

    assert torch.equal(pixels(4), pixels(1, room=0))


def test_pixels_go_to_the_device_as_bytes_and_are_normalised_there(tiny_encoder, colours):
    images = FewShotImages(colours, encoder=tiny_encoder, augment=AugmentParams(crop=(1.0, 1.0), flip=False))
    pixels, labels = images.batch(np.arange(3), seed=1, iteration=0)
    assert pixels.dtype == torch.uint8
    assert labels.tolist() == colours.labels[:3].tolist()
    normalized = images.normalized(pixels)
    mean, std = (tiny_encoder.preprocessing[name] for name in ("mean", "std"))
    by_hand = (int(pixels[0, 1, 2, 3]) / 255 - mean[1]) / std[1]
    assert float(normalized[0, 1, 2, 3]) == pytest.approx(by_hand, abs=1e-6)
    whole = (pixels.float() / 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    assert torch.equal(normalized, whole)


def test_a_training_image_that_changed_since_listing_is_an_error(tiny_encoder, colours):
    options = {"encoder": tiny_encoder, "augment": finetune_params().augment}
    FewShotImages(colours, **options).batch(np.array([0]), seed=1, iteration=0)
    with pytest.raises(ChangedError, match=r"0.png changed since it was listed"):
        FewShotImages(replace(colours, digests=colours.digests[::-1]), **options).batch(
            np.array([0]), seed=1, iteration=0
        )


def test_the_words_of_a_list_decide_a_result_and_a_missing_list_is_named(in_tmp, colours):
    """They are in the resume key, so that another list trains again."""
    proda = finetune_params().methods["proda"]
    method = proda.model_copy(update={"tune": proda.tune.model_copy(update={"words": "words.txt"})})
    with pytest.raises(MissingError, match=r"words\.txt"):
        start_words(method.tune)
    Path("words.txt").write_text("sun\nrain\n")
    assert (start_words(method.tune), start_words(proda.tune)) == (["sun", "rain"], [])
    keys = [replace(colours, words=words).about for words in ([], ["sun"], ["rain"])]
    assert keys[1] != keys[2] != keys[0] == colours.about


def test_no_images_is_an_error(tiny_encoder):
    with pytest.raises(DataError, match="the few-shot split holds no images"):
        FewShotImages(
            TrainingSet([], [], np.array([]), [], "a {}.", [""]),
            encoder=tiny_encoder,
            augment=finetune_params().augment,
        )
