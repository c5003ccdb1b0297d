"""Peak memory of the device in searches and in training: on a CPU it is not measured, and the report says so."""

from __future__ import annotations

import pytest
import torch
from report_made import both_seeds, results

from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.report.memory import memory_of_searches, memory_table
from wsoup.runtime.peak import DevicePeak, highest


def test_a_cpus_memory_is_not_measured():
    assert DevicePeak(torch.device("cpu")).mib() is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_peak_is_of_tensors_made_since():
    device = torch.device("cuda")
    before = torch.cuda.memory_allocated(device)
    peak = DevicePeak(device)
    held = torch.zeros(64 * 2**20, dtype=torch.uint8, device=device)
    del held
    assert peak.mib() == pytest.approx(before / 2**20 + 64, abs=2)


def test_the_highest_of_several_parts_counts():
    assert highest([3, None, 7, 5]) == 7
    assert highest([None, None]) is None


def test_the_table_has_a_line_for_each_search_and_each_method(tmp_path):
    """A pool that was not scored has none."""
    artifacts = Artifacts(tmp_path)
    store.write_checked_object(artifacts.memory("score", "words"), {"peak_device_mib": 900})
    store.write_checked_object(artifacts.memory("soup", "word"), {"peak_device_mib": None})
    searches = memory_of_searches(artifacts, pools=["words", "descriptors"], soups=["word", "descriptor"])
    run = results(
        both_seeds("class_name", {"imagenet": (1, 1)}),
        parameters={"coop": 1536, "ce": 3_000_000},
        peak_device_mib={"coop": 2345, "ce": None},
    )
    table = memory_table(run, searches=searches)
    assert [list(row.values()) for row in table.rows] == [
        ["scores of words", None, 900],
        ["search of word", None, "not measured on a CPU"],
        ["coop", 1536, 2345],
        ["ce", 3_000_000, "not measured on a CPU"],
    ]
    assert "| scores of words |  | 900 |" in table.as_markdown()
