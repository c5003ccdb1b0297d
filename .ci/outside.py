"""What a stranger does with an installed wsoup, in an empty folder: run by .ci/wheel, with a tiny encoder."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import open_clip
from PIL import Image
from safetensors.torch import save_file

import wsoup

CONFIG = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 16, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2},
}
COLOURS = {"red": (200, 30, 30), "green": (30, 180, 40), "blue": (40, 50, 210)}
WORDS = wsoup.common_words(40)


def run(*command: str, cwd: Path = Path()) -> str:
    """A command's output; its error ends this script."""
    done = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def draw_photos(folder: Path) -> tuple[list[str], list[int]]:
    """Noisy one-colour photos and their labels."""
    rng, paths, labels = np.random.default_rng(0), [], []
    for label, (name, colour) in enumerate(COLOURS.items()):
        (folder / name).mkdir(parents=True)
        for number in range(6):
            pixels = np.clip(np.array(colour) + rng.normal(0, 25, (20, 20, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
            paths.append(str(folder / name / f"{number}.png"))
            labels.append(label)
    return paths, labels


def api_example(paths: list[str], labels: list[int]) -> None:
    """The example of docs/python.md, on a tiny model with random weights."""
    Path("tiny-clip.json").write_text(json.dumps(CONFIG))
    open_clip.add_model_config("tiny-clip.json")
    model, _, preprocess = open_clip.create_model_and_transforms("tiny-clip", load_weights=False)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, "tiny.safetensors")
    tokenizer, names = open_clip.get_tokenizer("tiny-clip"), list(COLOURS)
    features = wsoup.encode_images(paths, model=model, preprocess=preprocess, progress=False)
    soup = wsoup.word_soup(
        features, labels, class_names=names, model=model, tokenizer=tokenizer, seed=1, words=WORDS, k0=5, k1=30, m=3,
        encoder={"model": "tiny-clip", "pretrained": "tiny.safetensors"}, progress=False,
    )  # fmt: skip
    soup.save("soup.json")
    soup = wsoup.Soup.load("soup.json")
    classifier = soup.classifier(class_names=names, model=model, tokenizer=tokenizer)
    theirs = open_clip.build_zero_shot_classifier(model, tokenizer, names, soup.templates())
    assert (classifier - theirs).abs().max() < 1e-5
    print("api:", wsoup.zero_shot_accuracy(features, labels, classifier=classifier))
    wsoup.descriptor_soup(features, labels, class_names=names, model=model, tokenizer=tokenizer, progress=False)


def import_seconds() -> float:
    """What `import wsoup` takes in a fresh process, the best of three."""
    timed = "import time; began = time.perf_counter(); import wsoup; print(time.perf_counter() - began)"
    return min(float(run(sys.executable, "-c", timed)) for _ in range(3))


def main() -> None:
    """All of it."""
    assert "site-packages" in wsoup.__file__, wsoup.__file__
    (wheel,) = Path().glob("*.whl")
    seconds = import_seconds()
    print(f"wheel: {wheel.stat().st_size / 1e6:.2f} MB; import wsoup: {seconds:.3f} s")
    assert seconds < 0.2
    paths, labels = draw_photos(Path("photos"))
    api_example(paths, labels)
    Path("photos/broken.png").write_bytes(b"broken")
    began = time.monotonic()
    run("wsoup", "classify", "photos", "--soup", "soup.json", "--classes", ",".join(COLOURS), "--config",
        "tiny-clip.json", "--pretrained", "tiny.safetensors", "--out", "found.csv", "--html", "sheet.html")  # fmt: skip
    found = list(csv.DictReader(Path("found.csv").read_text().splitlines()))
    assert [row["status"] for row in found].count("ok") == len(found) - 1 == len(paths)
    print(f"classify: {len(found)} photos in {time.monotonic() - began:.1f} s")
    assert "source: shapes" in run("wsoup", "profile", "demo")
    print(run("wsoup", "init", "soups"), end="")
    folder = Path("soups")
    assert "python stages report" in run("dvc", "repro", "--dry", "--force", cwd=folder)
    assert "Running stage 'prepare@shapes'" in run("dvc", "repro", "prepare@shapes", cwd=folder)
    assert (folder / "artifacts/manifests/shapes.parquet").is_file()
    assert "Running stage" not in run("dvc", "repro", "prepare@shapes", cwd=folder)
    print("init: a pipeline that runs")


if __name__ == "__main__":
    main()
