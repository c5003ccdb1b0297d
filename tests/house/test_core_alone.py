"""The core works without the packages of extras, and names the extra of one that is missing."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import tomllib

import pytest
from project import ROOT

from wsoup.base.errors import EXTRAS, PackageError, needing

WITHOUT = """
import sys
for name in ("dvc", "zarr", "pyarrow", "jinja2", "vl_convert", "onnx", "transformers", "datasets", "ray"):
    sys.modules[name] = None
"""
FACTS = {
    "a soup is made, saved and used": """
        import torch, wsoup
        from wsoup.towers.models import random_model
        model, tokenizer = random_model("ViT-S-32-alt", seed=0)
        features = torch.nn.functional.normalize(torch.randn(9, 256), dim=1)
        how = {"class_names": ["cat", "dog"], "model": model, "tokenizer": tokenizer, "progress": False}
        soup = wsoup.descriptor_soup(features, torch.arange(9) % 2, descriptors=["sharp", "flat"], **how)
        soup.save(sys.argv[1])
        wsoup.Soup.load(sys.argv[1]).classifier(class_names=["a", "b"], model=model, tokenizer=tokenizer)
        import wsoup.api.images, wsoup.photos.classify, wsoup.photos.export, wsoup.photos.sheet
        import wsoup.photos.trial
    """,
    "photos without train/ and test/ are divided": """
        from pathlib import Path
        from wsoup.photos.labelled import look
        for name in ("cat", "dog"):
            Path("photos", name).mkdir(parents=True)
            for i in range(2):
                Path("photos", name, f"{i}.png").write_bytes(name.encode() + bytes([i]))
        photos = look("photos", shots=1, seed=1, template="a {}.", classes=None)
        assert (photos.n_train, photos.labels.tolist()) == (2, [0, 1, 0, 1])
    """,
    "the command line says what is missing": """
        from wsoup.cli import app
        sys.argv = ["wsoup", "report"]
        try:
            app.main()
        except SystemExit as stop:
            assert stop.code == 1
    """,
    "importing wsoup loads nothing else": """
        before = set(sys.modules)
        import wsoup
        assert {name.split(".")[0] for name in set(sys.modules) - before} <= {"wsoup", *sys.stdlib_module_names}
        assert "torch" not in sys.modules
    """,
}


@pytest.mark.parametrize("fact", FACTS)
def test_that(fact, tmp_path):
    command = [sys.executable, "-c", WITHOUT + textwrap.dedent(FACTS[fact]), str(tmp_path / "soup.json")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if "missing" in fact:
        says = "error: jinja2 is not installed, and this needs it: pip install jinja2 vl-convert-python"
        assert done.stderr == f"{says} (wsoup's extra `report`)\n"


def test_every_extra_names_its_packages():
    with (
        pytest.raises(PackageError, match="this needs it: pip install dvc dvc-data networkx pyarrow zarr "),
        needing(),
    ):
        raise ModuleNotFoundError("No module named 'zarr.core'", name="zarr.core")
    with pytest.raises(ModuleNotFoundError, match="nothing of ours"), needing():
        raise ModuleNotFoundError("nothing of ours", name="nothing")
    assert set(EXTRAS) == {"pipeline", "report", "hf", "ray", "onnx"}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, packages in EXTRAS.items():
        names = {re.split("[<>=;]", requirement)[0] for requirement in declared[extra]}
        assert set(packages.values()) == names - {"ruamel.yaml.clib"}, "which only makes another package faster"
