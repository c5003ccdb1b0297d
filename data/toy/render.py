"""Draw the toy world: small PNGs in ImageFolder layout, world/<dataset>/{train,test}/<class>/<number>.png.

A scene has a colour, shape, count, texture and style. A dataset fixes some of these as its label and draws the others
at random. The source `shapes` labels colour and shape, in mixed styles; `shapes_sketch`, `shapes_night` and
`shapes_blurry` show the same classes in one style each (domain shifts); `counts`, `textures`, `colours` and `forms`
have other labels (cross-dataset targets). `pretrain.py` draws its image-caption pairs with the same functions.

Every image has its own generator, made from (seed, dataset, split, class, number), so any part can be drawn alone, and
the same params give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import yaml
from PIL import Image, ImageDraw

from wsoup.base.errors import WsoupError
from wsoup.disk.store import replacing
from wsoup.runtime.ending import INTERRUPTED, interruptible, leave_at_once

OVERSAMPLING = 2  # images are drawn at twice the size, then averaged, for soft edges

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (212, 38, 38),
    "orange": (238, 130, 26),
    "yellow": (236, 214, 48),
    "green": (48, 158, 62),
    "blue": (44, 84, 206),
    "purple": (128, 50, 168),
    "pink": (240, 132, 182),
    "brown": (122, 76, 40),
}
GROUNDS = ((240, 240, 236), (196, 190, 176), (150, 168, 180), (120, 124, 122), (176, 196, 160), (84, 88, 96))
COUNTS = ("one", "two", "three", "four", "five")


def _around(*radii: float, turn: float = 0.0) -> np.ndarray:
    """Corners at the given radii, evenly around the origin, the first one at the top: (n, 2)."""
    angle = np.linspace(0, 2 * np.pi, len(radii), endpoint=False) + turn
    return np.stack([np.sin(angle), -np.cos(angle)], axis=1) * np.array(radii)[:, None]


def _heart() -> np.ndarray:
    t = np.linspace(0, 2 * np.pi, 32, endpoint=False)
    x = 16 * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return np.stack([x, -y], axis=1) / 17


def _moon() -> np.ndarray:
    t = np.linspace(0.25 * np.pi, 1.75 * np.pi, 20)
    outer = np.stack([np.cos(t), np.sin(t)], axis=1)
    inner = np.stack([0.30 + 0.72 * np.cos(t), 0.72 * np.sin(t)], axis=1)
    return np.concatenate([outer, inner[::-1]])


# Outlines in the unit disc, y downwards: (n, 2)
SHAPES: dict[str, np.ndarray] = {
    "triangle": _around(1, 1, 1),
    "square": _around(1, 1, 1, 1, turn=np.pi / 4),
    "circle": _around(*[0.9] * 32),
    "star": _around(*[1, 0.42] * 5),
    "cross": np.array(
        [(-3, -9), (3, -9), (3, -3), (9, -3), (9, 3), (3, 3), (3, 9), (-3, 9), (-3, 3), (-9, 3), (-9, -3), (-3, -3)]
    )
    / 9.5,
    "heart": _heart(),
    "moon": _moon(),
    "arrow": np.array([(0, -10), (8, -1), (3, -1), (3, 10), (-3, 10), (-3, -1), (-8, -1)]) / 10,
}

# (x, y in pixels of the finished image, generator) -> mask in [0, 1].
Texture = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]
TEXTURES: dict[str, Texture] = {
    "plain": lambda x, y, rng: np.zeros_like(x),
    "striped": lambda x, y, rng: (np.sin(_tilted(x, y, rng) * rng.uniform(0.8, 1.3)) > 0) * 1.0,
    "dotted": lambda x, y, rng: (
        (np.hypot((x + rng.uniform(0, 8)) % 8 - 4, (y + rng.uniform(0, 8)) % 8 - 4) < 2.2) * 1.0
    ),
    "checkered": lambda x, y, rng: (x // 5 + y // 5) % 2,
    "wavy": lambda x, y, rng: (np.sin(y * 0.9 + 2.2 * np.sin(x * 0.45 + rng.uniform(0, 6))) > 0) * 1.0,
    "speckled": lambda x, y, rng: (
        (np.kron(rng.random((x.shape[0] // 2, x.shape[1] // 2)), np.ones((2, 2))) > 0.72) * 1.0
    ),
    "ringed": lambda x, y, rng: (np.sin(np.hypot(x - rng.uniform(8, 24), y - rng.uniform(8, 24)) * 1.0) > 0) * 1.0,
    "gradient": lambda x, y, rng: np.clip(y / y.max() if rng.random() < 0.5 else 1 - y / y.max(), 0, 1),
}


def _tilted(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    angle = rng.uniform(0, np.pi)
    return x * np.cos(angle) + y * np.sin(angle)


@dataclass(frozen=True)
class Style:
    """How a scene is shown: object radius as a share of the image, light, contrast, noise and blur (pixels)."""

    radius: tuple[float, float] = (0.30, 0.44)
    light: tuple[float, float] = (0.85, 1.1)
    contrast: tuple[float, float] = (0.9, 1.0)
    noise: float = 4.0
    blur: float = 0.0
    outlined: bool = False
    paper: bool = False  # a flat, nearly white ground in place of a texture


STYLES: dict[str, Style] = {
    "photo": Style(),
    "poster": Style(paper=True, noise=0.0),
    "faded": Style(contrast=(0.3, 0.5), light=(1.1, 1.2)),
    "grainy": Style(noise=34.0),
    "sketch": Style(outlined=True, paper=True, noise=6.0),
    "night": Style(light=(0.22, 0.34), noise=14.0),
    "blurry": Style(radius=(0.20, 0.28), blur=1.4),
}
# Styles of all datasets but the shifts. Half of them are shifted, so that texts that help here can help there.
MIXED = ("photo", "photo", "poster", "faded", "grainy", "sketch", "sketch", "night", "night", "blurry", "blurry")


@dataclass(frozen=True)
class Scene:
    colour: str
    shape: str
    count: int
    texture: str
    style: str


def random_scene(rng: np.random.Generator, *, styles: tuple[str, ...]) -> Scene:
    """A scene with every fact drawn uniformly; `dataclasses.replace` then fixes those of the label."""
    return Scene(
        colour=pick(tuple(COLOURS), rng=rng),
        shape=pick(tuple(SHAPES), rng=rng),
        count=1,
        texture=pick(tuple(TEXTURES), rng=rng),
        style=pick(styles, rng=rng),
    )


def pick(names: tuple[str, ...], *, rng: np.random.Generator) -> str:
    """As `rng.choice`, without making an array of the names."""
    return names[rng.integers(len(names))]


def draw(scene: Scene, *, rng: np.random.Generator, size: int) -> np.ndarray:
    """The scene as pixels: (size, size, 3) uint8. Positions, rotations and shades are drawn from rng."""
    style = STYLES[scene.style]
    canvas = Image.fromarray(_ground(scene, style=style, rng=rng, size=size * OVERSAMPLING))
    pen = ImageDraw.Draw(canvas)
    shade = _shade(COLOURS[scene.colour], rng=rng)
    for centre, radius in _places(scene.count, radius=style.radius, rng=rng):
        turn = rng.normal(0, 0.18)
        rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        corners = (SHAPES[scene.shape] @ rotation.T * radius + centre) * size * OVERSAMPLING
        points = [tuple(corner) for corner in corners]
        if style.outlined:
            pen.line([*points, points[0], points[1]], fill=shade, width=2 * OVERSAMPLING, joint="curve")
        else:
            pen.polygon(points, fill=shade)
    return _shown(canvas.reduce(OVERSAMPLING), style=style, rng=rng)


def _ground(scene: Scene, *, style: Style, rng: np.random.Generator, size: int) -> np.ndarray:
    if style.paper:
        return np.full((size, size, 3), rng.integers(232, 250), dtype=np.uint8)
    near, far = (np.array(_shade(GROUNDS[i], rng=rng)) for i in rng.choice(len(GROUNDS), 2, replace=False))
    y, x = _grid(size)
    mask = TEXTURES[scene.texture](x, y, rng)[..., None]
    return (near + (far - near) * 0.7 * mask).astype(np.uint8)


@cache
def _grid(size: int) -> np.ndarray:
    """y and x of every oversampled pixel, in pixels of the finished image."""
    return np.mgrid[:size, :size] / OVERSAMPLING


def _shade(colour: tuple[int, int, int], *, rng: np.random.Generator) -> tuple[int, int, int]:
    shift = rng.normal(0, 14, 3).tolist()
    red, green, blue = (int(min(max(channel + by, 0), 255)) for channel, by in zip(colour, shift, strict=True))
    return red, green, blue


def _places(count: int, *, radius: tuple[float, float], rng: np.random.Generator) -> Iterator[tuple[np.ndarray, float]]:
    """Centre and radius of each object, as shares of the image: one near the middle, or several around it."""
    if count == 1:
        size = rng.uniform(*radius)
        yield 0.5 + rng.normal(0, 0.06, 2), size
        return
    spots = _around(*[0.30] * count, turn=rng.uniform(0, 2 * np.pi)) + 0.5
    for spot in spots:
        yield spot + rng.normal(0, 0.02, 2), rng.uniform(0.12, 0.17)


def _shown(image: Image.Image, *, style: Style, rng: np.random.Generator) -> np.ndarray:
    pixels = np.asarray(image, dtype=np.float64)
    if style.blur:
        pixels = _blurred(pixels, radius=style.blur)
    contrast, light = rng.uniform(*style.contrast), rng.uniform(*style.light)
    pixels = (128 + (pixels - 128) * contrast) * light + rng.normal(0, 1, pixels.shape) * style.noise
    return np.clip(pixels, 0, 255).astype(np.uint8)


def _blurred(pixels: np.ndarray, *, radius: float) -> np.ndarray:
    """Gaussian blur as two matrix products, normalised at the edges."""
    place = np.arange(len(pixels))
    kernel = np.exp(-0.5 * ((place[:, None] - place) / radius) ** 2)
    kernel /= kernel.sum(axis=1, keepdims=True)
    return np.einsum("yv,xu,vuc->yxc", kernel, kernel, pixels, optimize=True)


@dataclass(frozen=True)
class Dataset:
    """Scene facts by class name, and the styles of the images."""

    facts: dict[str, dict[str, object]]
    styles: tuple[str, ...] = MIXED


_SOURCE = {f"{colour} {shape}": {"colour": colour, "shape": shape} for colour in COLOURS for shape in SHAPES}
DATASETS: dict[str, Dataset] = {
    "shapes": Dataset(_SOURCE),
    **{f"shapes_{style}": Dataset(_SOURCE, styles=(style,)) for style in ("sketch", "night", "blurry")},
    "counts": Dataset(
        {
            f"{word} {shape}" + "s" * (count > 1): {"count": count, "shape": shape}
            for count, word in enumerate(COUNTS, start=1)
            for shape in ("circle", "star")
        }
    ),
    "textures": Dataset(
        {texture: {"texture": texture, "count": 0} for texture in TEXTURES}, styles=("photo", "grainy")
    ),
    "colours": Dataset({colour: {"colour": colour} for colour in COLOURS}),
    "forms": Dataset({shape: {"shape": shape} for shape in SHAPES}),
}
SOURCE = "shapes"


def images(name: str, *, split: str, per_class: int, seed: int, size: int) -> Iterator[tuple[str, str, np.ndarray]]:
    """(class name, file name, pixels) of every image of one split, class by class."""
    dataset = DATASETS[name]
    for label, (class_name, facts) in enumerate(dataset.facts.items()):
        for number in range(per_class):
            rng = np.random.default_rng([seed, zlib.crc32(f"{name}/{split}".encode()), label, number])
            scene = replace(random_scene(rng, styles=dataset.styles), **facts)
            yield class_name, f"{number:03d}.png", draw(scene, rng=rng, size=size)


def render(out: Path, *, params: dict[str, int]) -> int:
    """Write all datasets under `out`; returns the number of files."""
    splits = {
        (name, split): params["train_per_class" if split == "train" else "test_per_class"]
        for name in DATASETS
        for split in ("train", "test")
        if split == "test" or name == SOURCE
    }
    for name, dataset in DATASETS.items():
        if dataset.facts is not _SOURCE:
            splits[name, "test"] = params["target_per_class"]
    written = 0
    for (name, split), per_class in splits.items():
        for class_name, file_name, pixels in images(
            name, split=split, per_class=per_class, seed=params["seed"], size=params["image_size"]
        ):
            path = out / name / split / class_name.replace(" ", "_") / file_name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
            written += 1
    return written


@contextmanager
def whole(out: Path) -> Iterator[Path]:
    """A folder that becomes `out` once complete; an interrupt or a full disk prints one line and leaves nothing."""
    try:
        with interruptible(), replacing(out) as folder:
            yield folder
    except WsoupError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print("interrupted; nothing is kept, run it again", file=sys.stderr)
        sys.exit(INTERRUPTED)


def main() -> None:
    leave_at_once()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--params", type=Path, default=Path(__file__).with_name("params.yaml"))
    arguments = parser.parse_args()
    params = yaml.safe_load(arguments.params.read_text())["render"]
    with whole(arguments.out) as folder:
        written = render(folder, params=params)
    print(f"{written} images in {arguments.out}")


if __name__ == "__main__":
    main()
