"""Every function and class of the library is used by it: one that nothing names is half of a change, or a leftover."""

from __future__ import annotations

import ast

import pytest
from half_done import is_used, trees

ROOMS = sorted({path.parts[1] for path in trees() if path.parts[0] == "wsoup" and len(path.parts) > 2})


@pytest.mark.parametrize("room", ROOMS)
def test_everything_is_used(room: str) -> None:
    unused = []
    for path, tree in trees().items():
        if path.parts[:2] != ("wsoup", room):
            continue
        for node in tree.body:
            is_named = isinstance(node, ast.FunctionDef | ast.ClassDef)
            # What has a decorator may be called by its maker, such as a command.
            if is_named and not node.decorator_list and not is_used(path, node.name):
                unused.append(f"{path}: nothing uses {node.name}; use it where it belongs, or remove it")
    assert not unused, "\n".join(unused)
