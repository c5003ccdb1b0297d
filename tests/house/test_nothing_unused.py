"""Every function and class of the library is used: one that nothing names is half of a change, or a leftover."""

from __future__ import annotations

import pytest
from half_done import trees, unused

ROOMS = sorted({path.parts[1] for path in trees() if path.parts[0] == "wsoup" and len(path.parts) > 2})


@pytest.mark.parametrize("room", ROOMS)
def test_everything_is_used(room: str) -> None:
    assert not unused(room), "\n".join(unused(room))
