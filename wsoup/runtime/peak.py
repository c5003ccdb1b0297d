"""Peak memory of the device that a model computes on, by which people choose a GPU. Decides no result."""

from collections.abc import Iterable

import torch

MIB = 2**20


class DevicePeak:
    """The highest memory that torch's tensors have held on a device since this was made.

    Args:
        device: what is measured; a CPU's memory is shared with everything else and is not.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)

    def mib(self) -> int | None:
        """In MiB, or None on a CPU."""
        if self.device.type != "cuda":
            return None
        return round(torch.cuda.max_memory_allocated(self.device) / MIB)


def highest(peaks: Iterable[int | None]) -> int | None:
    """The highest of several peaks in MiB; None if none was measured."""
    return max((peak for peak in peaks if peak is not None), default=None)
