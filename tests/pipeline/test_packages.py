"""data/packages.yaml: which versions the results belong to, and what is said of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from wsoup.base.errors import MismatchError, MissingError
from wsoup.params.reading import read_yaml
from wsoup.pipeline.packages import VERSIONS, check_packages, versions_yaml

INSTALLED = {
    "numpy": "2.3.1",
    "open_clip_torch": "3.2.0",
    "pillow": "12.0.0",
    "torch": "2.9.1+cpu",
    "torchvision": "0.24.1+cu130",
    "wordfreq": "3.1.1",
}


@pytest.fixture
def recorded(in_tmp: Path) -> Path:
    VERSIONS.parent.mkdir()
    VERSIONS.write_text(versions_yaml(INSTALLED))
    return in_tmp


def test_a_version_is_written_without_its_build(recorded):
    """The same release for a CPU or a GPU is one version."""
    assert read_yaml(VERSIONS) == {
        "numpy": "numpy 2.3.1",
        "models": "numpy 2.3.1, open_clip_torch 3.2.0, pillow 12.0.0, torch 2.9.1, torchvision 0.24.1",
        "words": "wordfreq 3.1.1",
    }


def test_another_build_is_no_other_version_and_another_version_is_named(recorded):
    check_packages(INSTALLED)
    check_packages({**INSTALLED, "torch": "2.9.1+cu130"})
    check_packages({"numpy": "2.3.1"})
    with pytest.raises(MismatchError) as refused:
        check_packages({**INSTALLED, "torch": "2.9.0+cpu", "wordfreq": "3.1.2"})
    assert "2.9.0" in str(refused.value)
    assert "3.1.2" in str(refused.value)
    assert "pillow" not in str(refused.value)


def test_without_the_file_versions_are_compared_only_where_there_is_a_pipeline(in_tmp):
    check_packages(INSTALLED)
    Path("dvc.yaml").touch()
    with pytest.raises(MissingError, match=r"packages\.yaml does not exist: `wsoup packages --accept` writes"):
        check_packages(INSTALLED)
