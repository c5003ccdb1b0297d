"""Tuned weights on disk: what was trained, and what is needed to rebuild the model."""

import csv
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import safetensors
import torch
from pydantic import TypeAdapter
from safetensors import SafetensorError

from wsoup.base.errors import MismatchError, one_line
from wsoup.disk import store
from wsoup.finetune.params import TuneParams
from wsoup.finetune.student import Student
from wsoup.finetune.tuners import make_student
from wsoup.towers.encoder import Encoder

WEIGHTS, CONFIG, LOG = "weights.safetensors", "config.json", "log.csv"
SNAPSHOTS = "snapshots.safetensors"


def pack_student(
    student: Student,
    *,
    log: Sequence[Mapping[str, float]],
    snapshots: Mapping[int, Mapping[str, torch.Tensor]] = MappingProxyType({}),
) -> dict[str, np.ndarray]:
    """The results of a training as named arrays.

    Args:
        student: after training, not merged.
        log: rows of the training log.
        snapshots: averaged weights during training, by iteration and name.
    """
    during = {f"snapshots/{i}/{name}": p.numpy() for i, copies in snapshots.items() for name, p in copies.items()}
    n_trained = sum(p.numel() for name, p in student.stored().items() if name in student.trained_names)
    about = {"tunes_images": student.tunes_images, "parameters": n_trained, "log": list(log)}
    weights = {f"weights/{name}": p.detach().cpu().contiguous().numpy() for name, p in student.stored().items()}
    return {**weights, **during, "about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)}


def save_tuned(folder: str | Path, *, packed: Mapping[str, np.ndarray], config: Mapping[str, object]) -> None:
    """Write weights.safetensors, config.json and log.csv, and snapshots.safetensors if there are any.

    Args:
        folder: to write to.
        packed: from `pack_student`.
        config: JSON values, at least encoder (id), method, seed, tune and template. The number of trained parameters
            and whether image features changed are added.
    """
    folder = Path(folder)
    about = json.loads(packed["about"].tobytes())
    for name, prefix in ((WEIGHTS, "weights/"), (SNAPSHOTS, "snapshots/")):
        arrays = {key.removeprefix(prefix): array for key, array in packed.items() if key.startswith(prefix)}
        if arrays or name == WEIGHTS:
            store.write_bytes(folder / name, store.pack_arrays(arrays))
    log = about.pop("log")
    store.write_json(folder / CONFIG, {**config, **about})
    with store.replacing(folder / LOG) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(log[0]) if log else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(log)


def members_divergence_log(folder: str | Path) -> list[tuple[int, float]]:
    """(iteration, KL between the members' predictions) for every row of the log; empty if there is one member."""
    with open(Path(folder) / LOG, encoding="utf-8", newline="") as file:
        divergence = [(int(row["iteration"]), float(row["members_kl"])) for row in csv.DictReader(file)]
    return divergence if any(value for _, value in divergence) else []


def snapshots_in(folder: str | Path) -> list[int]:
    """Iterations with a snapshot of the averaged weights, in order; empty if there are no snapshots."""
    path = Path(folder) / SNAPSHOTS
    if not path.exists():
        return []
    with _undamaged(path), safetensors.safe_open(path, framework="pt") as file:
        return sorted({int(key.partition("/")[0]) for key in file.keys()})  # noqa: SIM118 (no mapping)


def read_config(folder: Path) -> tuple[dict[str, Any], TuneParams]:
    """What `save_tuned` wrote beside the weights, and what was tuned; raises as `load_tuned`."""
    config = store.read_object(store.require(folder / CONFIG, made_by="finetune"))
    with _undamaged(folder):
        return config, TypeAdapter(TuneParams).validate_python(config["tune"])


def load_tuned(folder: str | Path, *, encoder: Encoder, iteration: int | None = None) -> Encoder:
    """The encoder with tuned weights, merged into plain ones where that is exact.

    Its `model` is a `Student`, which behaves like the open_clip model.

    Args:
        folder: from `save_tuned`.
        encoder: the pretrained model that was tuned; it is not changed, and its frozen parts are shared.
        iteration: of a snapshot (see `snapshots_in`); None for the final weights.

    Raises:
        MissingError: the folder or its config.json does not exist.
        MismatchError: the weights were trained on another encoder, do not fit config.json, or are damaged.
    """
    folder = Path(folder)
    config, tune = read_config(folder)
    store.check_encoder(config["encoder"], expected=encoder.id, where=folder)
    path, prefix = (folder / WEIGHTS, "") if iteration is None else (folder / SNAPSHOTS, f"{iteration}/")
    with _undamaged(path), safetensors.safe_open(path, framework="pt", device=str(encoder.device)) as file:
        keys = [key for key in file.keys() if key.startswith(prefix)]  # noqa: SIM118
        stored = {key.removeprefix(prefix): file.get_tensor(key) for key in keys}
    student = make_student(
        encoder.model,
        tokenizer=encoder.tokenizer,
        tune=tune,
        template=config["template"],
        generator=torch.Generator().manual_seed(0),  # all random values are overwritten below
    )
    shapes = [{(name, tensor.shape) for name, tensor in tensors.items()} for tensors in (student.stored(), stored)]
    if differing := sorted(name for name, _ in shapes[0] ^ shapes[1]):
        raise MismatchError(f"{path} does not fit its {CONFIG} (first at {differing[0]}); run `dvc repro` again")
    student.load_state_dict(stored, strict=False)
    identity = {
        **encoder.id,
        "method": config["method"],
        "seed": config["seed"],
        "tuned_weights": store.sha256_file(path),
        **({} if iteration is None else {"iteration": iteration}),
    }
    load = partial(load_tuned, folder.resolve(), encoder=encoder, iteration=iteration)
    return dataclasses.replace(encoder, model=student.merge(), id=identity, load=load)


@contextmanager
def _undamaged(path: Path) -> Iterator[None]:
    """MismatchError if what is read within is damaged or not there."""
    try:
        yield
    except (SafetensorError, OSError, ValueError) as error:
        raise MismatchError(
            f"{path} holds no tuned model or is damaged ({one_line(error, limit=200)}); make it with "
            "`dvc repro finetune`"
        ) from None
