"""Whose classes, whose order: labels, names, rows and classifiers that meet belong to each other, or are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

import wsoup
from wsoup.base.errors import DataError, MismatchError, WsoupError
from wsoup.core.member import Member
from wsoup.core.soup import Soup
from wsoup.heads.head import Head

NAMES = ("up", "right", "left")
UP, RIGHT, LEFT = [0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]
TEXTS = torch.tensor([UP, RIGHT, LEFT]).T  # (D, C) in the order of NAMES
FEATURES = torch.tensor([UP, UP, RIGHT, LEFT, LEFT, LEFT])
SAID = ["up", "up", "right", "left", "left", "up"]
"""Labels of FEATURES; the last is wrong, so 5 of 6 are right."""


def numbers(order: tuple[str, ...]) -> list[int]:
    """SAID as positions in an order of names."""
    return [order.index(name) for name in SAID]


def head(order: tuple[str, ...] = NAMES) -> Head:
    """A head whose classes are in this order; it is right about five of six images."""
    columns = [NAMES.index(name) for name in order]
    encoder = {"model": "m", "pretrained": "p"}
    return Head(
        kind="prototypes",
        setting={"weight": 1.0},
        classifier=TEXTS[:, columns].contiguous(),
        temperature=1.0,
        confidences=torch.tensor([1.0]),
        right=torch.tensor([True]),
        class_names=order,
        template="a {}.",
        logit_scale=1.0,
        encoder=encoder,
        soup=Soup("class_name", 0, "a {}.", encoder, (Member(""),)),
    )


ORDERS = [*permutations(NAMES)]


@pytest.mark.parametrize("order", ORDERS)
def test_a_heads_own_names_decide(order: tuple[str, ...]) -> None:
    """Whatever order labels are in, and the head's classes: 5 of 6."""
    for of_head in ORDERS:
        accuracy = wsoup.zero_shot_accuracy(FEATURES, numbers(order), classifier=head(of_head), class_names=order)
        assert (accuracy.n_correct, accuracy.n_images) == (5, 6)


@pytest.mark.parametrize("order", ORDERS)
def test_labels_that_are_names_need_no_order(order: tuple[str, ...]) -> None:
    assert wsoup.zero_shot_accuracy(FEATURES, SAID, classifier=head(order)).n_correct == 5
    for other in ORDERS:
        assert wsoup.zero_shot_accuracy(FEATURES, SAID, classifier=head(order), class_names=other).n_correct == 5


@pytest.mark.parametrize("order", ORDERS)
def test_numbers_alone_are_positions_among_the_heads_own_names(order: tuple[str, ...]) -> None:
    assert wsoup.zero_shot_accuracy(FEATURES, numbers(order), classifier=head(order)).n_correct == 5


@pytest.mark.parametrize("order", ORDERS)
def test_a_baseline_of_another_order_gains_nothing(order: tuple[str, ...]) -> None:
    """Once it was +100 points."""
    for labels, class_names in ((SAID, None), (numbers(order), order), (SAID, order)):
        accuracy = wsoup.zero_shot_accuracy(
            FEATURES, labels, classifier=head(order), baseline=head(NAMES), class_names=class_names
        )
        assert (accuracy.n_correct, accuracy.gain.points, accuracy.gain.n_gained) == (5, 0.0, 0)


@pytest.mark.parametrize("order", ORDERS)
def test_a_head_beside_class_texts(order: tuple[str, ...]) -> None:
    """Texts have the order of class_names, the head its own."""
    accuracy = wsoup.zero_shot_accuracy(
        FEATURES, numbers(NAMES), classifier=head(order), baseline=TEXTS, class_names=NAMES
    )
    assert (accuracy.n_correct, accuracy.gain.points) == (5, 0.0)


def test_two_heads_of_other_orders_and_numbers_alone_are_refused() -> None:
    with pytest.raises(
        MismatchError, match=r"classifier and baseline have other classes, or the same in another order"
    ):
        wsoup.zero_shot_accuracy(FEATURES, numbers(NAMES), classifier=head(), baseline=head(ORDERS[1]))


def test_a_head_of_more_classes_than_the_images_have() -> None:
    labels = [0, 0, 1]
    assert wsoup.zero_shot_accuracy(
        FEATURES[:3], labels, classifier=head(("left", "right", "up")), class_names=["up", "right"]
    ).n_correct == 3  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "class_names", "message"),
    [
        (numbers(NAMES), ["a", "b", "c"], "classifier does not have the class 'a', which images have by class_names"),
        (numbers(NAMES), ["Up", "right", "left"], "does not have the class 'Up'"),
        (numbers(NAMES), ["up", "right", "left "], "does not have the class 'left '"),
        (["up"] * 5 + ["down"], ["up", "right", "down"], "does not have the class 'down'"),
        (["up"] * 5 + ["down"], None, "labels holds 'down', which is not among the 3 classes that classifier has"),
        ([0] * 5 + [3], None, r"labels\[5\] is 3, outside of the 3 classes that classifier has"),
        ([0] * 5 + [2], ["up", "left"], r"labels\[5\] is 2, outside of the 2 class_names"),
        ([0] * 5, NAMES, r"labels has shape \(5,\)"),
    ],
)
def test_other_classes_than_the_heads_are_refused(labels: list, class_names: list[str] | None, message: str) -> None:
    with pytest.raises(WsoupError, match=message) as caught:
        wsoup.zero_shot_accuracy(FEATURES, labels, classifier=head(), class_names=class_names)
    assert "\n" not in str(caught.value)


def test_a_baseline_of_other_classes_is_named() -> None:
    other = replace(head(), class_names=("a", "b", "c"))
    with pytest.raises(MismatchError, match=r"baseline does not have the class 'up'"):
        wsoup.zero_shot_accuracy(FEATURES, numbers(NAMES), classifier=head(), baseline=other, class_names=NAMES)


# ---------------------------------------------------------------------------------- rows of images that torch loads

PIXELS = torch.linspace(0, 1, 7)[:, None, None, None].expand(7, 3, 16, 16).contiguous()


class Backwards(Sampler):
    def __iter__(self) -> Iterator[int]:
        return iter(range(6, -1, -1))

    def __len__(self) -> int:
        return 7


class Shuffling(DataLoader):
    def __iter__(self) -> Iterator[object]:
        return iter([*super().__iter__()][::-1])


class OwnBatches(BatchSampler):
    def __iter__(self) -> Iterator[list[int]]:
        return iter([*super().__iter__()][::-1])


class Renamed(SequentialSampler):
    """Nobody knows what a kind of one's own does."""


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(PIXELS)


def all_but_the_third(batch: list) -> torch.Tensor:
    """As many leave out what cannot be read."""
    return torch.stack([image for (image,) in batch if not torch.equal(image, PIXELS[2])])


DATA = TensorDataset(PIXELS)
WITHOUT_ORDER: dict[str, tuple[Callable[[], DataLoader], str]] = {
    "shuffle": (lambda: DataLoader(DATA, batch_size=3, shuffle=True), "that shuffles"),
    "random": (lambda: DataLoader(DATA, sampler=RandomSampler(DATA)), "that shuffles"),
    "subset": (lambda: DataLoader(DATA, sampler=SubsetRandomSampler(range(7))), "that shuffles"),
    "weighted": (lambda: DataLoader(DATA, sampler=WeightedRandomSampler([1.0] * 7, 7)), "that shuffles"),
    "distributed": (
        lambda: DataLoader(DATA, sampler=DistributedSampler(DATA, num_replicas=1, rank=0)),
        "with a sampler of its own (DistributedSampler)",
    ),
    "distributed in order": (
        lambda: DataLoader(DATA, sampler=DistributedSampler(DATA, num_replicas=2, rank=0, shuffle=False)),
        "with a sampler of its own (DistributedSampler)",
    ),
    "backwards": (lambda: DataLoader(DATA, sampler=Backwards()), "with a sampler of its own (Backwards)"),
    "a list": (lambda: DataLoader(DATA, sampler=[6, 5, 4, 3, 2, 1, 0]), "with a sampler of its own (list)"),
    "a kind of one's own": (lambda: DataLoader(DATA, sampler=Renamed(DATA)), "with a sampler of its own (Renamed)"),
    "batches of random": (
        lambda: DataLoader(DATA, batch_sampler=BatchSampler(RandomSampler(DATA), 3, False)),
        "with a sampler of batches of its own (BatchSampler)",
    ),
    "batches of one's own": (
        lambda: DataLoader(DATA, batch_sampler=OwnBatches(SequentialSampler(DATA), 3, False)),
        "with a sampler of batches of its own (OwnBatches)",
    ),
    "a list of batches": (
        lambda: DataLoader(DATA, batch_sampler=[[6, 5], [4, 3, 2, 1, 0]]),
        "with a sampler of batches of its own (list)",
    ),
    "in any order": (lambda: DataLoader(DATA, batch_size=3, num_workers=2, in_order=False), "with in_order=False"),
    "a loader of one's own": (lambda: Shuffling(DATA, batch_size=3), "of a class of its own (Shuffling)"),
    "a stream in workers": (lambda: DataLoader(Stream(), batch_size=3, num_workers=2), "of a stream in 2 workers"),
    "the last dropped": (lambda: DataLoader(DATA, batch_size=3, drop_last=True), "that drops the last images"),
    "the last batch dropped": (
        lambda: DataLoader(DATA, batch_sampler=BatchSampler(SequentialSampler(DATA), 3, True)),
        "that drops the last images",
    ),
    "some left out": (
        lambda: DataLoader(DATA, batch_size=3, collate_fn=all_but_the_third),
        "that gives 6 images of a dataset of 7",
    ),
    "a sampler of fewer": (
        lambda: DataLoader(DATA, batch_size=3, sampler=SequentialSampler(range(5))),
        "that gives 5 images of a dataset of 7",
    ),
}


def encode(given: object, encoder) -> torch.Tensor:
    return wsoup.encode_images(given, model=encoder.model, progress=False)


@pytest.mark.parametrize("kind", WITHOUT_ORDER)
def test_a_loader_in_another_order_is_refused_with_the_cure(tiny_encoder, kind: str) -> None:
    make, why = WITHOUT_ORDER[kind]
    with pytest.raises(DataError) as caught:
        encode(make(), tiny_encoder)
    message = str(caught.value)
    assert f"paths is a DataLoader {why}" in message
    assert "pass its dataset instead, encode_images(loader.dataset, ...)" in message
    assert "\n" not in message


class Pairs(Dataset):
    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        return PIXELS[i], i

    def __len__(self) -> int:
        return 7


IN_ORDER: dict[str, Callable[[], object]] = {
    "usual": lambda: DataLoader(DATA, batch_size=3),
    "one at a time": lambda: DataLoader(DATA),
    "with labels": lambda: DataLoader(Pairs(), batch_size=4),
    "its dataset": lambda: DATA,
    "workers": lambda: DataLoader(Pairs(), batch_size=2, num_workers=2),
    "a sequential sampler": lambda: DataLoader(DATA, batch_size=3, sampler=SequentialSampler(DATA)),
    "batches in order": lambda: DataLoader(DATA, batch_sampler=BatchSampler(SequentialSampler(DATA), 3, False)),
    "nothing to drop": lambda: DataLoader(DATA, batch_size=7, drop_last=True),
    "no batches": lambda: DataLoader([PIXELS[:4], PIXELS[4:]], batch_size=None),
    "a stream": lambda: DataLoader(Stream(), batch_size=3),
    "a stream in one worker": lambda: DataLoader(Stream(), batch_size=3, num_workers=1),
}


@pytest.mark.parametrize("kind", IN_ORDER)
def test_a_loader_in_the_order_of_its_dataset(tiny_encoder, kind: str) -> None:
    features = encode(IN_ORDER[kind](), tiny_encoder)
    expected = encode(PIXELS, tiny_encoder)
    assert np.allclose(features, expected, atol=1e-6)
