"""Peak memory of the device in training: on a CPU it is not measured, and the report says so."""

from __future__ import annotations

import pytest
import torch
from report_made import both_seeds, results

from wsoup.finetune.peak import DevicePeak
from wsoup.report.run import memory_table


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


def test_the_table_has_a_line_for_each_method():
    run = results(
        both_seeds("class_name", {"imagenet": (1, 1)}),
        parameters={"coop": 1536, "ce": 3_000_000},
        peak_device_mib={"coop": 2345, "ce": None},
    )
    assert memory_table(run).rows == [
        {"method": "coop", "parameters": 1536, "device memory, MiB": 2345},
        {"method": "ce", "parameters": 3_000_000, "device memory, MiB": "not measured on a CPU"},
    ]
