"""Which pretrained weights are on this machine already: without a network a run would end when it asks for others."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import constants

from wsoup.params.inputs import EncoderParams

OF_OPEN_CLIP = Path("~/.cache/clip")
"""Where open_clip keeps what it loads by URL."""
FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
"""Names of weights in a repository of the hub, of which open_clip takes the first that is there."""


def missing_weights(encoder: EncoderParams) -> str | None:
    """A sentence if the tag of section `encoder` names weights that are still to be downloaded; else None.

    `wsoup.pipeline.checks.preflight` looks for a weights file; a tag that open_clip does not have is another finding.
    """
    from wsoup.towers.library import open_clip  # torch: seconds

    if encoder.comes_with_weights or encoder.weights_file is not None:
        return None
    source: dict[str, Any] = open_clip.get_pretrained_cfg(encoder.model, str(encoder.pretrained))
    if not source or _is_here(source):
        return None
    return (
        f"the weights of {encoder.model} / {encoder.pretrained} are not on this machine: the first stage that needs "
        "them downloads them; without a network, name files that you have (encoder.pretrained, encoder.config)"
    )


def tags_here(tags: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Which models and tags of open_clip have their weights on this machine."""
    from wsoup.towers.library import open_clip  # torch: seconds

    here = []
    for model, tag in tags:
        source: dict[str, Any] = open_clip.get_pretrained_cfg(model, tag)
        if source and _is_here(source):
            here.append((model, tag))
    return here


def _is_here(source: Mapping[str, object]) -> bool:
    """Whether open_clip's entry of a tag names a file that was downloaded before, by either way."""
    from huggingface_hub import try_to_load_from_cache  # and all that connects to the hub

    url = str(source.get("url") or "")
    name = url.rpartition("/")[2]
    if name and (OF_OPEN_CLIP.expanduser() / name).is_file():
        return True
    repository, _, file = str(source.get("hf_hub") or "").rpartition("/")
    if not repository:
        return False
    names = (file,) if file else FILES
    return any(isinstance(try_to_load_from_cache(repository, name), str) for name in names)


def downloaded() -> list[str]:
    """Names of all models that were downloaded, so that another one is noticed."""
    names = []
    for folder in (Path(constants.HF_HUB_CACHE), OF_OPEN_CLIP.expanduser()):
        if folder.is_dir():
            names += os.listdir(folder)
    return sorted(names)
