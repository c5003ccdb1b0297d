"""A target more or less in a params.yaml that stands, whose other lines stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from wsoup.check.whole import parse_params
from wsoup.core.errors import MissingError, ParamsError
from wsoup.core.params.datasets import DatasetParams
from wsoup.core.params.section import read_yaml
from wsoup.datasets import folder, layouts
from wsoup.profiles.common import block, end_of, filled
from wsoup.towers.encoder import imagenet_class_names


def changed(params: Path, *, add: str | None, remove: str | None, images: str | None, template: str | None) -> str:
    """The text of a params.yaml with a target added, or with one taken out.

    Args:
        params: the file.
        add: the name of a new target; its folder is `images`, with test/<class>/ or <class>/.
        remove: the name of a target.
        images: the folder; none with `remove`.
        template: prompt template with one ``{}``; None: the source's.

    Raises:
        MissingError, DataError: no such file or folder, or one without class folders.
        ParamsError: a name that is there already, or is not, or is the source's; what params.yaml would refuse.
    """
    if not params.is_file():
        raise MissingError(f"{params} does not exist; make it with `wsoup profile own --images DIR --out {params}`")
    raw, text = read_yaml(params), params.read_text(encoding="utf-8")
    now = parse_params(raw, origin=str(params))
    if remove is not None:
        if remove not in now.datasets or remove == now.source:
            targets = ", ".join(name for name in now.datasets if name != now.source) or "none"
            raise ParamsError(f"--remove {remove}: {params} has the targets {targets}; name one of these")
        text = filled(text, {f"datasets.{remove}": None})
    if add is not None:
        if add in now.datasets:
            raise ParamsError(
                f"--add {add}: {params} has a dataset of that name; --remove it first, or name it otherwise"
            )
        if images is None:
            raise ParamsError(f"--add {add} needs --images, the folder of its test/<class>/<image> or <class>/<image>")
        text = _with(text, add, _section(images, source=now.source, of=now.datasets[now.source], template=template))
    parse_params(yaml.safe_load(text), origin=str(params))
    return text


def _section(images: str, *, source: str, of: DatasetParams, template: str | None) -> dict[str, Any]:
    """Of the source's classes it is of the role dg, else xd."""
    root = str(Path(images).resolve())
    names = layouts.read(source, params=of, imagenet_names=imagenet_class_names).class_names
    role = "dg" if folder.read(root, wanted=["test"]).class_names == names else "xd"
    place = {"layout": "imagefolder", "root": root, "watch": root}
    return {"role": role, **place, "template": template or of.template, "verify": True}


def _with(text: str, name: str, section: dict[str, Any]) -> str:
    """The text with a section behind the last one of `datasets`."""
    whole: Any = yaml.compose(text)
    datasets = next(value for key, value in whole.value if key.value == "datasets")
    if datasets.flow_style:
        raise ParamsError("datasets stands on one line in braces; write one dataset a line, then --add")
    end = text.find("\n", end_of(datasets)) + 1 or len(text)
    return text[:end] + block({name: section}) + text[end:]
