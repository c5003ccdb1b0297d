"""The classifier of a soup or a head in a file that can be used without wsoup: npz or ONNX.

With the arrays of the file, for image features f of length 1:

    probabilities = softmax(logit_scale f classifier)
"""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import wsoup
from wsoup.api.classify import Classifier
from wsoup.base.errors import ModelError, needing, one_line
from wsoup.disk import store
from wsoup.towers.encoder import Encoder

if TYPE_CHECKING:
    import onnx

FORMATS = ("npz", "onnx")
OPSET = 18


def write(path: Path, classifier: Classifier, *, form: str, tower: Encoder | None) -> None:
    """Write a classifier atomically.

    Args:
        path: the file.
        classifier: of a soup or a head.
        form: one of `FORMATS`.
        tower: ONNX with this encoder's image tower takes preprocessed images (N, 3, H, W); None: image features.

    Raises:
        ModelError: the image tower cannot be exported.
        PackageError: onnx is not installed.
    """
    names, about = list(classifier.class_names), {"made_by": f"wsoup {wsoup.__version__}", **classifier.made_of}
    if form == "onnx":
        model = _traced(classifier, tower=tower)
        for key, value in {"class_names": names, **about}.items():
            model.metadata_props.add(key=key, value=value if isinstance(value, str) else _json(value))
        store.write_bytes(path, model.SerializeToString(deterministic=True))
        return
    file = io.BytesIO()
    np.savez(
        file,
        classifier=classifier.weights.cpu().numpy(),
        logit_scale=np.float32(classifier.logit_scale).reshape(1),
        class_names=np.array(names),
        about=np.array(_json({"class_names": names, **about})),
    )
    store.write_bytes(path, file.getvalue())


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


class _Head(nn.Module):
    """Pixels, or image features of any length, to logits and probabilities."""

    def __init__(self, classifier: Classifier, tower: nn.Module | None) -> None:
        super().__init__()
        self.tower, self.classifier = tower, classifier

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features = images if self.tower is None else self.tower.encode_image(images)  # type: ignore[operator]
        logits = self.classifier.logit_scale * nn.functional.normalize(features, dim=-1) @ self.classifier.weights
        return logits, logits.softmax(dim=1)


def _traced(classifier: Classifier, *, tower: Encoder | None) -> onnx.ModelProto:
    """The classifier as an ONNX model for any number of images."""
    example, model = torch.ones(2, len(classifier.weights)), None
    if tower is not None:
        example = tower.preprocess(Image.new("RGB", (64, 64)))[None].repeat(2, 1, 1, 1).to(tower.device)
        model = tower.model
    with needing():
        import onnx
        import onnxscript  # noqa: F401  torch.onnx needs it
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        try:
            torch.onnx.export(
                _Head(classifier, model).eval(),
                (example,),
                file,
                input_names=["image_features" if tower is None else "pixels"],
                output_names=["logits", "probabilities"],
                dynamic_shapes={"images": {0: "images"}},
                opset_version=OPSET,
                external_data=False,
                verbose=False,
                dynamo=True,
            )
        except Exception as error:  # the exporter wraps errors of a tower's code in its own
            raise ModelError(
                f"the image tower cannot be exported to ONNX ({one_line(error, limit=200)}); leave out --pixels, and "
                "encode images where the model runs"
            ) from None
        return onnx.load(file)
