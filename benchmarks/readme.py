"""The figures and blocks of README about photographs, made again: docs/notes/readme_figures.md and docs/gains.svg.

python -m benchmarks.readme PACS --config C.json --pretrained W.safetensors --image-mean ... --cache FOLDER

PACS is a folder of folders photo/, art_painting/, cartoon/, sketch/. It takes a minute of processor time. A test
compares README with what this wrote.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

import wsoup
from wsoup.api.encoders import EncoderOptions
from wsoup.api.hub import DEFAULTS
from wsoup.base import project
from wsoup.cli import common
from wsoup.core.draws import named_seed
from wsoup.disk.store import write_bytes

PAGE = "docs/notes/readme_figures.md"
FIGURE = "docs/gains.svg"
HEAD = """# The figures of README

`python -m benchmarks.readme PACS --cache FOLDER`, with the options of an encoder, wrote this page and
[gains.svg](../gains.svg): part of PACS (336 training and 210 test photos of 7 classes, and 210 in each of three other
styles), a small encoder that is not CLIP.
"""
SHOTS = (1, 2, 4, 8)
DRAWS = 20


def main(
    photos: Annotated[Path, typer.Argument(help="Part of PACS: photo/, art_painting/, cartoon/ and sketch/.")],
    cache: Annotated[Path, typer.Option(help="A folder outside the repository for a pipeline and a soup.")],
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    image_mean: common.ImageMean = None,
    image_std: common.ImageStd = None,
    interpolation: common.Interpolation = None,
) -> None:
    """Write README's figures about photographs."""
    # Commands run in a folder of their own.
    photos, cache = photos.resolve(), cache.resolve()
    pretrained, config = (_absolute(value) for value in (pretrained, config))
    given = {"--model": model, "--pretrained": pretrained, "--config": config, "--interpolation": interpolation}
    given |= {"--image-mean": image_mean, "--image-std": image_std}
    options: list[str] = []
    for option, value in given.items():
        if value is not None:
            options += [option, value if isinstance(value, str) else ",".join(map(str, value))]
    loaded = EncoderOptions(model, pretrained, config, image_mean, image_std, interpolation)
    encoder = loaded.load(device="cpu", origin="benchmarks.readme", defaults=DEFAULTS)
    parts = [HEAD, *_script(photos / "photo", encoder=encoder, cache=cache)]
    parts += _heads(photos / "photo", encoder=encoder)
    parts += _block("wsoup try PACS/photo", _wsoup(["try", str(photos / "photo"), *options, "--force"], where=cache))
    parts += _pipeline(photos, options=options, where=cache / "pipeline")
    write_bytes(project.file(PAGE), "\n".join(parts).encode())


def _absolute(value: str | None) -> str | None:
    """A file by its whole path; anything else, such as a tag, as it is."""
    return str(Path(value).resolve()) if value is not None and Path(value).exists() else value


def _block(title: str, printed: str) -> Iterator[str]:
    yield f"## {title}\n\n```text\n{printed.strip()}\n```\n"


def _wsoup(arguments: Sequence[str], *, where: Path) -> str:
    """What a command of wsoup prints, in a folder."""
    where.mkdir(parents=True, exist_ok=True)
    # Results go to stdout, progress to stderr.
    command = [str(Path(sys.executable).with_name("wsoup")), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(project.root())}
    return subprocess.run(command, cwd=where, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def _read(root: Path, *, encoder: Any) -> tuple[list[str], dict[str, tuple[torch.Tensor, list[int]]]]:
    """Class names, and features and labels of both splits."""
    names = sorted(path.name for path in (root / "train").iterdir())
    splits = {}
    for split in ("train", "test"):
        splits[split] = _encoded(root / split, names=names, encoder=encoder)
    return names, splits


def _encoded(folder: Path, *, names: Sequence[str], encoder: Any) -> tuple[torch.Tensor, list[int]]:
    """Features and labels of a folder of <class>/<image>."""
    paths = sorted(folder.glob("*/*"))
    features = wsoup.encode_images(list(map(str, paths)), model=encoder.model, preprocess=encoder.preprocess)
    return features, [names.index(path.parent.name) for path in paths]


def _script(root: Path, *, encoder: Any, cache: Path) -> Iterator[str]:
    """README's script: its soup, and what it gains on the test photos and in each other style."""
    names, splits = _read(root, encoder=encoder)
    towers = {"class_names": names, "model": encoder.model, "tokenizer": encoder.tokenizer}
    soup = wsoup.word_soup(*splits["train"], seed=1, **towers)
    cache.mkdir(parents=True, exist_ok=True)
    soup.save(cache / "soup.json")
    yield from _block("wsoup soup show soup.json", _wsoup(["soup", "show", "soup.json"], where=cache))
    classifier = soup.classifier(**towers)
    plain = soup.class_name_soup().classifier(**towers)
    lines = []
    for style in (root, *sorted(path for path in root.parent.iterdir() if path != root)):
        photos = _encoded(style / "test", names=names, encoder=encoder)
        lines.append(f"{style.name}: {wsoup.zero_shot_accuracy(*photos, classifier=classifier, baseline=plain)}")
    yield from _block("README's script, and the same soup on other styles", "\n".join(lines))


def _heads(root: Path, *, encoder: Any) -> Iterator[str]:
    """Class means and a head on the class name from few photos, the mean over draws."""
    names, splits = _read(root, encoder=encoder)
    features, labels = splits["train"]
    lines = ["photos a class   class means   head"]
    for n_shots in SHOTS:
        percent: dict[str, list[float]] = {"means": [], "ridge": []}
        for draw in range(DRAWS):
            generator = np.random.default_rng(named_seed("shots of README", n_shots, draw))
            order = generator.permutation(len(labels))
            chosen: list[int] = []
            for label in range(len(names)):
                chosen += [i for i in order.tolist() if labels[i] == label][:n_shots]
            for kind, of_kind in percent.items():
                head = wsoup.fit_head(
                    features[chosen],
                    [labels[i] for i in chosen],
                    class_names=names,
                    model=encoder.model,
                    tokenizer=encoder.tokenizer,
                    kind=kind,
                    progress=False,
                )
                of_kind.append(wsoup.zero_shot_accuracy(*splits["test"], classifier=head).percent)
        lines.append(f"{n_shots:>14}{np.mean(percent['means']):>14.1f}{np.mean(percent['ridge']):>7.1f}")
    yield from _block(f"A head and class means from few photos, means of {DRAWS} draws", "\n".join(lines))


def _pipeline(photos: Path, *, options: Sequence[str], where: Path) -> Iterator[str]:
    """`wsoup profile own`, a run, its answer and its figure."""
    if not (where / "dvc.yaml").is_file():
        _wsoup(["init", "."], where=where)
    _wsoup(["profile", "own", "--images", str(photos), *options, "--out", "params.yaml", "--force"], where=where)
    _wsoup(["repro"], where=where)
    results = _wsoup(["results"], where=where).replace(str(photos.resolve().parent), "PHOTOS")
    yield from _block("wsoup profile own --images PACS; wsoup repro; wsoup results", results)
    verdict = (where / "reports/tables/verdict.md").read_text(encoding="utf-8")
    lines = [line for line in verdict.splitlines() if "class name only" in line]
    yield from _block("gains over the class name of every soup, from reports/tables/verdict.md", "\n".join(lines))
    _wsoup(["report", "--figure", "gains"], where=where)
    write_bytes(project.file(FIGURE), (where / "reports/gains.svg").read_bytes())


if __name__ == "__main__":
    typer.run(main)
