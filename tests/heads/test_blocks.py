"""Logits of thousands of classes come in blocks of images: the same answers, in little memory."""

from __future__ import annotations

import re
import sys

import pytest
import torch
from heads_cases import few_shots
from processes import run_code

from wsoup.heads import calibration, prototypes, ridge
from wsoup.heads.choose import Chosen, choose
from wsoup.heads.fewshot import FewShot

KINDS = ["prototypes", "ridge", "both"]


def chosen_in_blocks(of: int, shots: FewShot, *, kind: str, monkeypatch) -> Chosen:
    for module in (prototypes, ridge):
        monkeypatch.setattr(module, "BLOCK", of)
    monkeypatch.setattr(calibration, "ROWS", of)
    return choose(shots, kind=kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 4, 5, 10])
def test_blocks_of_images_choose_the_same_head(kind, size, monkeypatch):
    """Of 31 images in folds of ten, ten, ten and one: blocks that end with a fold, and blocks that do not."""
    shots = few_shots(counts=(3,) * 9 + (4,), seed=2)
    whole = chosen_in_blocks(1000, shots, kind=kind, monkeypatch=monkeypatch)
    cut = chosen_in_blocks(size, shots, kind=kind, monkeypatch=monkeypatch)
    assert 0 < int(whole.right.sum()) < 31
    assert cut.setting == whole.setting
    assert torch.equal(cut.classifier, whole.classifier)
    assert cut.temperature == pytest.approx(whole.temperature, rel=1e-4)
    assert torch.equal(cut.right, whole.right)
    torch.testing.assert_close(cut.confidences, whole.confidences, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_of_twins_the_first_is_predicted_wherever_a_block_ends(kind, size, monkeypatch):
    """Classes 0 and 1, 2 and 3, ... have the same text and the same images, whose numbers are 0 and 1: exact ties."""
    axes = torch.eye(4, dtype=torch.float64)
    labels = torch.arange(8).repeat(2)
    shots = FewShot(axes[labels // 2], labels, axes.repeat_interleave(2, dim=0).T.contiguous(), 8.0)
    chosen = chosen_in_blocks(size, shots, kind=kind, monkeypatch=monkeypatch)
    assert chosen.right.tolist() == [True, False] * 8


PEAK = """
    import re
    import sys
    from pathlib import Path
    import torch
    from torch.nn.functional import normalize
    from wsoup.heads.choose import choose
    from wsoup.heads.fewshot import FewShot

    def peak():
        return int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

    def few_shots(n_classes, shots):
        draw = torch.Generator().manual_seed(0)
        texts = normalize(torch.randn(n_classes, 16, generator=draw, dtype=torch.float64))
        labels = torch.arange(n_classes).repeat_interleave(shots)
        noise = 0.1 * torch.randn(len(labels), 16, generator=draw, dtype=torch.float64)
        return FewShot(normalize(texts[labels] + noise), labels, texts.T.contiguous(), 20.0)

    torch.set_num_threads(1)
    choose(few_shots(40, 2), kind="both")
    shots = few_shots(1200, int(sys.argv[1]))
    before = peak()
    choose(shots, kind="both")
    print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
@pytest.mark.parametrize("shots", [1, 2])
def test_a_head_holds_one_table_of_images_by_classes(shots, tmp_path):
    """A table of two shots of 1,200 classes has 22 MiB, and one for each of 14 settings would take 308."""
    code, printed = run_code(PEAK, str(shots), folder=tmp_path)
    assert code == 0, printed
    assert re.fullmatch(r"[\d.]+\n", printed)
    assert float(printed) < {1: 20, 2: 50}[shots], printed
