"""Test sets as they are read from files, and what of them is stored with results."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest
import torch
from evaluate_cases import NAMES, images
from processes import run_code

from wsoup.core.scoring import Scores
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.evaluate import testsets
from wsoup.evaluate.answers import Answers, answer
from wsoup.evaluate.rows import Row
from wsoup.evaluate.testsets import ClassPrompts, OnDisk, TestSet, count_right, identity_of_tests, load_tests
from wsoup.evaluate.training_curve import sample_images
from wsoup.towers.features import ImageFeatures, write_features


def test_a_test_set_is_what_its_files_say(in_tmp, tiny_encoder):
    features = np.eye(3, 16, dtype=np.float32)
    labels, rows = np.array([2, 0, 1]), np.array([7, 3, 5])
    attributes = {"class_names": NAMES, "template": "a {}.", "encoder": tiny_encoder.id, "layout": "imagefolder"}
    dataset = {
        "name": "photo",
        "role": "dg",
        "baseline_template": "an image of {}.",
        "gpt_names": {"cat": "house cat"},
        "gpt": {"cat": ["which is soft"]},
    }
    write_features(Artifacts().features("photo", split="test"), ImageFeatures(features, labels, rows, attributes))
    store.write_checked_object(Artifacts().evaluated, {"datasets": [dataset]})
    (listed,) = load_tests(Artifacts(), encoder=tiny_encoder)
    (given,) = load_tests(Artifacts(), encoder=tiny_encoder, datasets=[{**dataset, "role": "xd"}])
    assert (listed.role, given.role) == ("dg", "xd")
    assert (listed.name, listed.template, listed.class_names) == ("photo", "a {}.", NAMES)
    assert (listed.baseline_template, listed.gpt_names, listed.gpt) == (
        dataset["baseline_template"],
        dataset["gpt_names"],
        dataset["gpt"],
    )
    assert torch.equal(listed.image_features, torch.from_numpy(features))
    assert listed.labels.tolist() == [2, 0, 1]
    assert listed.rows.tolist() == [7, 3, 5]
    assert load_tests(Artifacts(), encoder=tiny_encoder, datasets=[]) == []


def test_facts_are_those_of_the_files_that_are_known_and_two_counts():
    test = images("photo", role="xd", names=NAMES, n=5, width=4)
    known = {"role": "xd", "template": "a {}.", "paper_comparable": False, "reason": "another split", "root": "/data"}
    facts = replace(test, attributes=known).facts
    assert facts == {
        "role": "xd",
        "template": "a {}.",
        "paper_comparable": False,
        "reason": "another split",
        "n_images": 5,
        "n_classes": 3,
    }
    assert test.facts == {"n_images": 5, "n_classes": 3}


def test_shifts_share_the_class_prompts_of_the_source(tests):
    classes = ClassPrompts(tests)
    pets = ["a photo of a dog, a type of pet", "a photo of a cat, a type of pet"]
    assert classes.stems == ["a photo of a red fox", "a photo of a cat", "a photo of a oak", *pets]
    assert [classes.of(test).tolist() for test in tests] == [[0, 1, 2], [0, 1], [3, 4]]


def test_the_identity_of_test_sets_is_all_that_decides_their_counts():
    test = images("photo", role="xd", names=NAMES, n=5, width=4)
    moved, relabelled = test.image_features.clone(), test.labels.clone()
    moved[0], relabelled[0] = moved[1], (relabelled[0] + 1) % 3
    others = [
        replace(test, name="other"),
        replace(test, role="dg"),
        replace(test, template="a {}."),
        replace(test, class_names=[*NAMES[:2], "elm"]),
        replace(test, image_features=moved),
        replace(test, labels=relabelled),
    ]
    assert identity_of_tests([test]) == identity_of_tests([replace(test, attributes={"root": "elsewhere"})])
    for other in others:
        assert identity_of_tests([other]) != identity_of_tests([test])


@pytest.fixture
def held_and_on_disk(in_tmp, tiny_encoder, monkeypatch) -> tuple[TestSet, TestSet]:
    """The same test set in memory in one block, and on disk in blocks of 16, the last of a single image."""
    made = images("photo", role="xd", names=NAMES, n=33, width=16)
    attributes = {"class_names": NAMES, "template": "a {}.", "encoder": tiny_encoder.id}
    stored = ImageFeatures(made.image_features.numpy(), made.labels.numpy(), made.rows, attributes)
    write_features(Artifacts().features("photo", split="test"), stored)
    facts = {"name": "photo", "role": "xd", "baseline_template": None, "gpt_names": {}, "gpt": None}
    (held,) = load_tests(Artifacts(), encoder=tiny_encoder, datasets=[facts])
    monkeypatch.setattr(testsets, "HELD_BYTES", 0)
    (on_disk,) = load_tests(Artifacts(), encoder=tiny_encoder, datasets=[facts])
    assert isinstance(held.image_features, torch.Tensor)
    assert isinstance(on_disk.image_features, OnDisk)
    return held, on_disk


def test_blocks_from_disk_change_no_bit(held_and_on_disk, monkeypatch):
    held, _ = held_and_on_disk
    means = torch.randn(3, 3, 16, generator=torch.Generator().manual_seed(1))
    rows = [Row("class_name", (1,), ("",)), Row("word_soup", (1,), ("a", "b")), Row("word_soup", (1,), ("a",))]

    def answered(test: TestSet) -> Answers:
        pairs = list(zip(rows, means, strict=True))
        return answer(pairs, test=test, logit_scale=100.0, soups=["word"], shown=rows[2:])

    whole = answered(held)
    of_whole = identity_of_tests([held])
    monkeypatch.setattr(testsets, "ROWS_PER_SHARD", 16)
    for test in held_and_on_disk:
        assert [block.start for block, _ in test.blocks()] == [0, 16, 32]
        by_block = answered(test)
        assert by_block.judged == whole.judged == [0, 1]
        for mode, expected in whole.by_mode.items():
            got = by_block.by_mode[mode]
            assert torch.equal(got.right_by_class, expected.right_by_class)
            assert (got.alignment, got.uniformity) == (expected.alignment, expected.uniformity)
            assert got.log_likelihood == pytest.approx(expected.log_likelihood)
            assert got.calibration_error == pytest.approx(expected.calibration_error)
            assert got.right == expected.right
            assert got.predicted[2].tolist() == expected.predicted[2].tolist()
            n_right = [int.from_bytes(bits).bit_count() for bits in got.right.values()]
            assert n_right == got.right_by_class[:2].sum(dim=1).tolist()
        decisions = Scores(held.image_features, means).against(held.labels)
        assert count_right(test, means).tolist() == decisions.right.sum(dim=1).tolist()
        assert identity_of_tests([test]) == of_whole
    samples = [sample_images([test], size=9)[0] for test in held_and_on_disk]
    assert torch.equal(samples[0].image_features, samples[1].image_features)
    assert samples[0].image_features.tolist() == held.image_features[samples[0].rows - 100].tolist()


PEAK = r"""
    import re
    import sys
    from pathlib import Path

    import numpy as np
    import torch

    from wsoup.towers.features import open_features
    from wsoup.evaluate.answers import answer
    from wsoup.evaluate.judged import confusion, flips, predictions
    from wsoup.evaluate.rows import Row
    from wsoup.evaluate.testsets import TestSet, held_if_small

    stored = open_features(sys.argv[1])
    features = held_if_small(stored.features, device=torch.device("cpu"))
    labels = torch.from_numpy(stored.labels)
    test = TestSet("many", "xd", "a {}.", ["a", "b"], features, labels, stored.rows, {})
    rows = [Row("class_name", (1,), ("",)), Row("word_soup", (1,), ("old",))]
    means = torch.eye(512)[:4].view(2, 2, 512)
    pair = (rows[0], rows[1])
    answers = answer(list(zip(rows, means)), test=test, logit_scale=100.0, soups=["word"], shown=pair)
    changes = [predictions(answers, pair=pair, mode="centroid")]
    print(flips(changes).num_rows, confusion(changes).num_rows)
    status = Path("/proc/self/status").read_text()  # of this process alone, unlike what `resource` says after a fork
    print(int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) // 1024)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_memory_does_not_grow_with_the_features_of_a_test_set(tmp_path):
    """From 80,000 to 200,000 images features grow by 234 MiB; labels, places and predictions by 30 bytes an image."""
    peaks = []
    for n in (80_000, 200_000):
        features = np.zeros((n, 512), dtype=np.float32)
        features[np.arange(n), np.arange(n) % 4] = 1
        stored = ImageFeatures(features, np.arange(n) % 2, np.arange(n), {})
        write_features(tmp_path / f"{n}.zarr", stored)
        command = [sys.executable, "-c", textwrap.dedent(PEAK), str(tmp_path / f"{n}.zarr")]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        *_, peak = ran.stdout.split()
        peaks.append(int(peak))
    assert peaks[1] - peaks[0] < 80, peaks


PEAK_OF_ROWS = r"""
    import re
    from pathlib import Path

    import numpy as np
    import torch

    from wsoup.evaluate.answers import answer
    from wsoup.evaluate.rows import Row
    from wsoup.evaluate.testsets import TestSet

    def peak():
        return int(re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

    def evaluated(n_rows, n_classes):
        names = [str(label) for label in range(n_classes)]
        test = TestSet("many", "xd", "a {}.", names, torch.eye(512)[:8], torch.arange(8), np.arange(8), {})
        rows = [Row("top_soup", (1,), (str(r),)) for r in range(n_rows)]
        means = torch.ones(n_rows, n_classes, 512)
        before = peak()
        answer(list(zip(rows, means)), test=test, logit_scale=100.0)
        return peak() - before

    evaluated(2, 10)
    print(evaluated(60, 2000))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_evaluating_rows_takes_no_copy_of_their_texts(tmp_path):
    """Those of 60 rows with 2,000 classes take 234 MiB."""
    code, printed = run_code(PEAK_OF_ROWS, folder=tmp_path)
    assert code == 0, printed
    assert float(printed) < 120, printed
