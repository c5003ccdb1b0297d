"""Unselected texts on every dataset, and the bound that selects on the targets, against plain loops."""

from __future__ import annotations

import pyarrow as pa
import torch
from evaluate_cases import images, line
from torch.nn import functional as F

from wsoup.evaluate.answers import answer
from wsoup.evaluate.counts import count
from wsoup.evaluate.evaluation import mean_texts
from wsoup.evaluate.rows import Row
from wsoup.evaluate.transfer import Grid, sample, source_counts, transfer
from wsoup.evaluate.upper_bound import mean_accuracy, ranked_on, upper_bound
from wsoup.search.rank.source import Source


def test_each_text_is_evaluated_alone(texts, tests):
    grid = Grid(["", "old", "sharp"], tests=tests, text_encoder=texts)
    counted = transfer(grid)
    assert counted.num_rows == 9
    rows = [Row("x", (1,), ("sharp",))]
    for test in tests:
        pairs = mean_texts(rows, tests=tests, text_encoder=texts).of(test)
        single = next(count(answer(pairs, test=test, logit_scale=100.0), sizes={"sharp": 0}))
        assert line(counted, text="sharp", dataset=test.name)["n_correct"] == single["n_correct"]


class OneByOne(Grid):
    """A grid whose features come in blocks of one text, as those of thousands of classes do."""

    def blocks(self, texts):
        for text in texts:
            yield from super().blocks([text])


def test_counts_are_named_by_their_own_texts_however_many_come_at_a_time(texts, tests):
    pool = ["", "old", "sharp", "wet"]
    counted = transfer(OneByOne(pool, tests=tests, text_encoder=texts))
    for text in pool:
        alone = transfer(Grid([text], tests=tests, text_encoder=texts)).to_pylist()
        assert [row for row in counted.to_pylist() if row["text"] == text] == alone


def test_the_counts_of_few_shot_images_are_named_by_seed_and_text(tiny_encoder):
    """An image is the feature of a class's own prompt: the bare name is right with seed 3, whose labels fit, alone."""
    names = ["cat", "dog"]
    cat, dog = tiny_encoder.encode_texts([f"a photo of a {name}." for name in names])
    images = torch.stack([cat, dog, cat, dog])
    subsets = {3: torch.tensor([0, 1]), 7: torch.tensor([2, 3, 3])}
    source = Source(tiny_encoder, images, torch.tensor([0, 1, 1, 0]), subsets, "a photo of a {}.", names)
    counted = source_counts(source, ["sharp", "old"], period=True)
    assert counted["text"].to_pylist() == ["", "sharp", "old"] * 2
    assert counted["seed"].to_pylist() == [3] * 3 + [7] * 3
    assert counted["n_images"].to_pylist() == [2] * 3 + [3] * 3
    assert [line(counted, text="", seed=seed)["n_correct"] for seed in (3, 7)] == [2, 0]


def test_mean_accuracy_weights_datasets_equally():
    assert mean_accuracy([1, 0], n_images=[2, 100]) > mean_accuracy([0, 49], n_images=[2, 100])
    assert mean_accuracy([1, 0], n_images=[2, 100]) == mean_accuracy([0, 50], n_images=[2, 100])


def test_texts_rank_by_their_mean_accuracy_over_the_targets_the_best_first():
    """2/2 and 0/4, 1/2 and 3/4, 0/2 and 3/4: means of 50, 62.5 and 37.5 per cent; the source does not count."""
    targets = [images(name, role="xd", names=["a", "b"], n=n, width=2) for name, n in (("pets", 2), ("cars", 4))]
    counts = {"": (2, 4, 0), "old": (2, 0, 0), "red": (1, 3, 0), "wet": (0, 3, 9), "tie": (1, 3, 0)}
    lines = []
    for text, by_dataset in counts.items():
        for name, n_correct in zip(("pets", "cars", "photo"), by_dataset, strict=True):
            lines.append({"text": text, "dataset": name, "n_correct": n_correct})
    assert ranked_on(targets, pa.Table.from_pylist(lines)) == ["red", "tie", "old", "wet"]


def test_the_upper_bound_is_the_one_by_one_loop_over_the_cross_dataset_targets(texts, tests):
    pool = ["old", "sharp", "red", "which is wet", "tall", "thin", "cold", "many", "loud"]
    grid = Grid(["", *pool], tests=tests, text_encoder=texts)
    counted, targets = transfer(grid), [test for test in tests if test.role == "xd"]
    ranked = ranked_on(targets, counted)
    assert sorted(ranked) == sorted(pool)
    members = [member.text for member in upper_bound(counted, grid=grid, m=4)]
    assert len(targets) < len([test for test in tests if test.role != "source"])
    kept: list[str] = []
    best = -1.0
    for text in ranked:
        counts = []
        for test in targets:
            mean = mean_texts([Row("x", (1,), (*kept, text))], tests=targets, text_encoder=texts).of(test)[0][1]
            right = (test.image_features @ F.normalize(mean, dim=-1).T).argmax(dim=1) == test.labels
            counts.append(float(right.double().mean()))
        if sum(counts) / len(counts) > best + 1e-9 and len(kept) < 4:
            kept, best = [*kept, text], sum(counts) / len(counts)
    assert members == kept


def test_the_count_of_a_bounds_member_is_over_all_targets_whatever_their_sizes(texts, tests):
    """Chosen by mean accuracy, but counted in images: of datasets of 20 and of 7."""
    targets = [tests[2], images("cars", role="xd", names=["car", "bus"], n=7, width=16)]
    grid = Grid(["", "old", "sharp"], tests=targets, text_encoder=texts)
    counted = transfer(grid)
    (first, *_) = upper_bound(counted, grid=grid, m=1)
    alone = [line(counted, text=first.text, dataset=test.name)["n_correct"] for test in targets]
    assert first.n_correct == sum(alone)


def test_the_sample_is_fixed_and_in_pool_order():
    pool = [str(i) for i in range(50)]
    drawn = sample(pool, size=10)
    assert drawn == sample(pool, size=10) == sorted(drawn, key=int)
    assert sample(pool, size=99) == pool
    assert sample(pool, size=None) == pool


def test_shifts_count_for_the_bound_only_without_cross_dataset_targets(texts, tests):
    def bound(*roles: str) -> list[str]:
        grid = Grid(["", "old", "sharp", "wet"], tests=[t for t in tests if t.role in roles], text_encoder=texts)
        return [(member.text, member.n_correct) for member in upper_bound(transfer(grid), grid=grid, m=4)]

    assert bound("source", "xd", "dg") == bound("xd")
    assert bound("source", "dg") == bound("dg") != bound("xd")
    assert bound("source") == []


def test_without_descriptors_there_is_no_bound(texts, tests):
    grid = Grid([""], tests=tests, text_encoder=texts)
    assert upper_bound(transfer(grid), grid=grid, m=4) == []
