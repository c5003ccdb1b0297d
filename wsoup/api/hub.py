"""Whether pretrained weights can be had here: from Hugging Face's hub, or from what was downloaded before.

This module imports no torch, so that a command without network ends at once.
"""

import os
import socket
import threading
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from wsoup.base.errors import ModelError
from wsoup.params.inputs import EncoderParams

DEFAULTS = {"model": "ViT-B-32", "pretrained": "openai"}
"""The encoder where nothing names one."""
PATIENCE = 1.5
"""Seconds to wait for the hub."""
WITHOUT = "connect to the network, or name files that you have: --pretrained FILE --config FILE (its open_clip config)"


def work_offline_unless_the_hub_answers(*, model: str, pretrained: str) -> None:
    """Spare a user without Hugging Face's hub a minute of retries.

    Raises:
        ModelError: the hub does not answer, and nothing was ever downloaded.
    """
    from huggingface_hub import constants

    if not constants.HF_HUB_OFFLINE:
        constants.HF_HUB_OFFLINE = not _answers(constants.ENDPOINT)
    if constants.HF_HUB_OFFLINE and not _anything_downloaded(Path(constants.HF_HUB_CACHE)):
        raise ModelError(unreachable(model=model, pretrained=pretrained))


def check_downloads(*, model: str | None, pretrained: str | None, config: str | None) -> None:
    """Raise ModelError at once if these options need weights from the hub and none can be had."""
    if config is not None or (model or "").startswith(("hf:", "local-dir:")):
        return
    model = model or DEFAULTS["model"]
    pretrained = pretrained or DEFAULTS["pretrained"]
    if not is_weights_file(pretrained):
        work_offline_unless_the_hub_answers(model=model, pretrained=pretrained)


def is_weights_file(name: str) -> bool:
    """Whether ``--pretrained`` names a file, not one of open_clip's tags."""
    return EncoderParams.model_construct(pretrained=name).weights_file is not None


def unreachable(*, model: str, pretrained: str) -> str:
    """The message about weights that are neither here nor to be had."""
    return f"the weights of {model} / {pretrained} are not on this machine, and the hub does not answer; {WITHOUT}"


def _answers(endpoint: str) -> bool:
    """Whether a connection to the hub opens in time."""
    # Behind a proxy only the proxy can tell: no connection of one's own opens.
    if urllib.request.getproxies():
        return True
    address = urlsplit(endpoint)
    port = address.port or 443
    opened: list[bool] = []

    def connect() -> None:
        try:
            socket.create_connection((address.hostname or "", port), timeout=PATIENCE).close()
        except OSError:
            return
        opened.append(True)

    # A thread is waited for, because looking up a name has no time limit of its own.
    attempt = threading.Thread(target=connect, daemon=True)
    attempt.start()
    attempt.join(PATIENCE)
    return bool(opened)


def _anything_downloaded(cache: Path) -> bool:
    """Whether the hub's cache or open_clip's own holds any model."""
    of_open_clip = Path(os.path.expanduser("~/.cache/clip"))
    return any(cache.glob("models--*")) or any(of_open_clip.glob("*"))
