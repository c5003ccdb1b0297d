"""What pyproject.toml cannot say: an installed wsoup carries the project's own files inside.

wsoup/base/project.py names them. They are copied when a wheel is built, so they are written once: profiles, the
paper's tables, the toy world, stages and dvc.yaml stay where DVC and people look for them.
"""

from __future__ import annotations

import ast
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

TOP = Path(__file__).parent
CONSTANTS = {
    node.targets[0].id: ast.literal_eval(node.value)
    for node in ast.parse((TOP / "wsoup" / "base" / "project.py").read_text(encoding="utf-8")).body
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
}


class BuildWithProject(build_py):
    """Also copies the project's files into the package; an editable install reads them where they are."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for source in sorted(path for pattern in CONSTANTS["FILES"] for path in TOP.glob(pattern) if path.is_file()):
            target = Path(self.build_lib, "wsoup", CONSTANTS["INSIDE"], source.relative_to(TOP))
            self.mkpath(str(target.parent))
            self.copy_file(str(source), str(target), preserve_mode=False)


setup(cmdclass={"build_py": BuildWithProject})
