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
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError

from wsoup.base.errors import MismatchError, one_line
from wsoup.base.validation import in_file
from wsoup.disk import checksums, store
from wsoup.finetune.student import Student
from wsoup.finetune.tune_params import TuneParams
from wsoup.finetune.tuners import make_student
from wsoup.towers.encoder import Encoder
from wsoup.towers.pure import convert

WEIGHTS = "weights.safetensors"
CONFIG = "config.json"
LOG = "log.csv"
SNAPSHOTS = "snapshots.safetensors"
CHECKSUMS = "checksums"
"""Key of the metadata of both."""
AGAIN = "dvc repro finetune"


def pack_student(
    student: Student,
    *,
    log: Sequence[Mapping[str, float]],
    snapshots: Mapping[int, Mapping[str, torch.Tensor]] = MappingProxyType({}),
    peak_device_mib: int | None = None,
) -> dict[str, np.ndarray]:
    """The results of a training as named arrays.

    Args:
        student: after training, not merged.
        log: rows of the training log.
        snapshots: averaged weights during training, by iteration and name.
        peak_device_mib: highest memory of training on the device; None if it was not measured.
    """
    packed = {}
    n_trained = 0
    for name, parameter in student.stored().items():
        packed[f"weights/{name}"] = parameter.detach().cpu().contiguous().numpy()
        if name in student.trained_names:
            n_trained += parameter.numel()
    for iteration, copies in snapshots.items():
        for name, copy in copies.items():
            packed[f"snapshots/{iteration}/{name}"] = copy.numpy()
    about: dict[str, object] = {
        "tunes_images": student.tunes_images,
        "parameters": n_trained,
        "peak_device_mib": peak_device_mib,
        "log": list(log),
    }
    if student.class_weights is not None:
        # They classify wherever a dataset has a class of the same name.
        about["class_names"] = list(student.class_names)
    packed["about"] = store.text_as_array(json.dumps(about))
    return packed


def save_tuned(folder: str | Path, *, packed: Mapping[str, np.ndarray], config: Mapping[str, object]) -> None:
    """Write weights.safetensors, config.json and log.csv, and snapshots.safetensors if there are any.

    Args:
        folder: to write to.
        packed: from `pack_student`.
        config: JSON values, at least encoder (id), method, seed, tune and template. The number of trained parameters,
            whether image features changed and the peak memory of the device are added.
    """
    folder = Path(folder)
    about = json.loads(store.text_of_array(packed["about"]))
    weights = _below(packed, "weights/")
    store.write_bytes(folder / WEIGHTS, _with_checksums(weights, prefixes=[""]))
    snapshots = _below(packed, "snapshots/")
    if snapshots:
        iterations = sorted({_iteration(name) for name in snapshots})
        prefixes = [f"{iteration}/" for iteration in iterations]
        store.write_bytes(folder / SNAPSHOTS, _with_checksums(snapshots, prefixes=prefixes))
    log = about.pop("log")
    store.write_checked_object(folder / CONFIG, {**config, **about})
    columns = list(log[0]) if log else []
    with store.replacing(folder / LOG) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        # The csv module would end lines as Windows does.
        writer = csv.DictWriter(file, fieldnames=columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(log)


def _below(packed: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in packed.items() if name.startswith(prefix)}


def _with_checksums(arrays: Mapping[str, np.ndarray], *, prefixes: Sequence[str]) -> bytes:
    """Bytes of a safetensors file whose metadata has a checksum of the arrays below each prefix.

    They are no arrays themselves, so that the file stays a plain state dict.
    """
    digests = {}
    for prefix in prefixes:
        digests[prefix] = checksums.of_arrays(_below(arrays, prefix)).hex()
    return store.pack_arrays(arrays, metadata={CHECKSUMS: json.dumps(digests, sort_keys=True)})


def _iteration(name: str) -> int:
    """The iteration of an array of `SNAPSHOTS`."""
    return int(name.partition("/")[0])


def members_divergence_log(folder: str | Path) -> list[tuple[int, float]]:
    """(iteration, KL between the members' predictions) for every row of the log; empty if there is one member.

    Raises:
        MismatchError: the log is damaged or not there.
    """
    path = Path(folder) / LOG
    divergence = []
    with _undamaged(path), open(path, encoding="utf-8", newline="") as file:
        # A row that was cut short has empty values, which are no numbers.
        rows = csv.DictReader(file, restval="")
        if not {"iteration", "members_kl"} <= set(rows.fieldnames or ()):
            raise ValueError("a column is missing")
        for row in rows:
            divergence.append((int(row["iteration"]), float(row["members_kl"])))
    has_members = any(value for _, value in divergence)
    return divergence if has_members else []


def snapshots_in(folder: str | Path) -> list[int]:
    """Iterations with a snapshot of the averaged weights, in order; empty if there are no snapshots."""
    path = Path(folder) / SNAPSHOTS
    if not path.exists():
        return []
    with _undamaged(path), safetensors.safe_open(path, framework="pt") as file:
        return sorted({_iteration(key) for key in file.keys()})  # noqa: SIM118 (no mapping)


def read_tuned_config(folder: Path) -> tuple[dict[str, Any], TuneParams]:
    """What `save_tuned` wrote beside the weights, and what was tuned; raises as `load_tuned`."""
    config = store.read_checked_object(store.require(folder / CONFIG, made_by="finetune"))
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
    config, tune = read_tuned_config(folder)
    store.check_encoder(config["encoder"], expected=encoder.id, where=folder)
    path = folder / WEIGHTS
    prefix = ""
    if iteration is not None:
        path = folder / SNAPSHOTS
        prefix = f"{iteration}/"
    stored, checksum = _stored_tensors(path, prefix=prefix, device=encoder.device)
    student = make_student(
        encoder.model,
        tokenizer=encoder.tokenizer,
        tune=tune,
        template=config["template"],
        # Any seed: all initial values are overwritten below.
        generator=torch.Generator().manual_seed(0),
        soup=config.get("soup", ()),
        class_names=config.get("class_names", ()),
    )
    differing = _shapes(student.stored()) ^ _shapes(stored)
    if differing:
        name, _ = min(differing)
        raise MismatchError(f"{path} does not fit its {CONFIG} (first at {name}); run `dvc repro` again")
    _check_undamaged(stored, checksum=checksum, path=path)
    # Loading is not strict, because what was not trained is not stored; shapes were compared above.
    student.load_state_dict(stored, strict=False)
    identity = {
        **encoder.id,
        "method": config["method"],
        "seed": config["seed"],
        "tuned_weights": store.sha256_file(path),
    }
    if iteration is not None:
        identity["iteration"] = iteration
    load = partial(load_tuned, folder.resolve(), encoder=encoder, iteration=iteration)
    merged = student.merge()
    if encoder.pure is not None:
        convert(merged, to=encoder.pure)
    return dataclasses.replace(encoder, model=merged, id=identity, load=load)


def _stored_tensors(path: Path, *, prefix: str, device: torch.device) -> tuple[dict[str, torch.Tensor], str | None]:
    """The tensors of a file below a prefix, by the rest of their names, and their checksum in its metadata."""
    with _undamaged(path), safetensors.safe_open(path, framework="pt", device=str(device)) as file:
        keys = [key for key in file.keys() if key.startswith(prefix)]  # noqa: SIM118
        stored = {key.removeprefix(prefix): file.get_tensor(key) for key in keys}
        metadata = file.metadata() or {}
        digests = json.loads(metadata.get(CHECKSUMS, "{}"))
    return stored, digests.get(prefix)


def _check_undamaged(tensors: Mapping[str, torch.Tensor], *, checksum: str | None, path: Path) -> None:
    on_cpu = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
    if checksum != checksums.of_arrays(on_cpu).hex():
        raise MismatchError(f"{path} is damaged: its checksum is not that of its weights; make it with `{AGAIN}`")


def _shapes(tensors: Mapping[str, torch.Tensor]) -> set[tuple[str, torch.Size]]:
    return {(name, tensor.shape) for name, tensor in tensors.items()}


@contextmanager
def _undamaged(path: Path) -> Iterator[None]:
    """MismatchError if what is read within is damaged or not there."""
    try:
        yield
    except (SafetensorError, OSError, ValueError, csv.Error) as error:
        reason = str(error)
        if isinstance(error, ValidationError):
            reason = in_file(error)
        raise MismatchError(
            f"{path} holds no tuned model or is damaged ({one_line(reason, limit=200)}); make it with `{AGAIN}`"
        ) from None
