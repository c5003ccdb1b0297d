"""A soup or a head as the classifier that it is, in a file that needs no wsoup: npz, safetensors or ONNX.

For image features f of length 1, with what the files hold:

    probabilities = softmax(logit_scale (f classifier + bias + exp(-sharpness (1 - f support^T)) weights))

`support` and `weights` are there in heads alone that look at their photos (tip, ridge).
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import wsoup
from wsoup.api.classify import Classifier
from wsoup.core.disk import store
from wsoup.core.errors import ModelError, ParamsError, needing, one_line

if TYPE_CHECKING:
    import onnx

FORMATS = ("npz", "safetensors", "onnx")
OPSET = 18


def write(path: Path, classifier: Classifier, *, form: str, made_of: Mapping[str, Any], pixels: bool) -> None:
    """Write a classifier, whole or not at all.

    Args:
        path: the file.
        classifier: a soup or a head.
        form: of `FORMATS`.
        made_of: what it was made of, as JSON values: provenance.
        pixels: of ONNX, whether it takes preprocessed images (N, 3, H, W) and holds the image tower.

    Raises:
        ParamsError: no such form, or pixels with another than ONNX.
        ModelError: the image tower cannot be exported.
        PackageError: onnx is not installed.
    """
    about = {
        "class_names": list(classifier.class_names),
        "made_by": f"wsoup {wsoup.__version__}",
        "encoder": dict(classifier.encoder.id),
        "preprocessing": dict(classifier.encoder.preprocessing),
        **made_of,
    }
    if form == "onnx":
        model = _traced(classifier, pixels=pixels)
        for key, value in about.items():
            entry = model.metadata_props.add()
            entry.key, entry.value = key, value if isinstance(value, str) else _json(value)
        payload = model.SerializeToString(deterministic=True)
    elif pixels:
        raise ParamsError(f"--pixels is for --format onnx, not {form}")
    elif form == "npz":
        file, texts = io.BytesIO(), {"class_names": np.array(classifier.class_names), "about": np.array(_json(about))}
        arrays: dict[str, Any] = {**_arrays(classifier), **texts}
        np.savez(file, **arrays)
        payload = file.getvalue()
    elif form == "safetensors":
        payload = store.pack_arrays(_arrays(classifier), about={"about": _json(about)})
    else:
        raise ParamsError(f"--format {form!r} must be one of {', '.join(FORMATS)} for a classifier")
    store.write_bytes(path, payload)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _arrays(classifier: Classifier) -> dict[str, np.ndarray]:
    """By the names of the formula above."""
    fitted = classifier.fitted
    linear = {"classifier": fitted.classifier, "bias": fitted.bias}
    kernel = {} if fitted.is_linear else {"support": fitted.support, "weights": fitted.weights}
    arrays = {name: tensor.cpu().numpy() for name, tensor in {**linear, **kernel}.items()}
    numbers = {"logit_scale": classifier.logit_scale, **({"sharpness": fitted.sharpness} if kernel else {})}
    return {**arrays, **{name: np.float32(number).reshape(1) for name, number in numbers.items()}}


class _Head(nn.Module):
    """Pixels or image features of any length -> logits and probabilities."""

    def __init__(self, classifier: Classifier, tower: nn.Module | None) -> None:
        super().__init__()
        self.tower, self.classifier = tower, classifier

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features = images if self.tower is None else self.tower.encode_image(images)  # type: ignore[operator]
        logits = self.classifier.logit_scale * self.classifier.fitted.logits(nn.functional.normalize(features, dim=-1))
        return logits, logits.softmax(dim=1)


def _traced(classifier: Classifier, *, pixels: bool) -> onnx.ModelProto:
    """The classifier as ONNX, for any number of images."""
    encoder = classifier.encoder
    if pixels:
        example = encoder.preprocess(Image.new("RGB", (64, 64)))[None].repeat(2, 1, 1, 1).to(encoder.device)
    else:
        example = torch.ones(2, len(classifier.fitted.classifier))
    with needing():
        import onnx
        import onnxscript  # noqa: F401  what torch.onnx translates with
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        try:
            torch.onnx.export(
                _Head(classifier, encoder.model if pixels else None).eval(),
                (example,),
                file,
                input_names=["pixels" if pixels else "image_features"],
                output_names=["logits", "probabilities"],
                dynamic_shapes={"images": {0: "images"}},
                opset_version=OPSET,
                external_data=False,
                verbose=False,
                dynamo=True,
            )
        except Exception as error:  # the exporter wraps what a tower's code raises in errors of its own
            raise ModelError(
                f"the image tower cannot be exported to ONNX ({one_line(error, limit=200)}); leave out --pixels, and "
                "encode images where the model runs"
            ) from None
        return onnx.load(file)
