"""Classifiers for use without wsoup.

With the arrays of an exported classifier, for image features f of length 1:

    probabilities = softmax(logit_scale f classifier)
"""

import io
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import wsoup
from wsoup.base.errors import ModelError, needing, one_line
from wsoup.disk import store
from wsoup.photos.classify import Classifier
from wsoup.towers.encoder import Encoder

OPSET = 18


def export_classifier(path: Path, classifier: Classifier, *, tower: Encoder | None) -> None:
    """Write the classifier of a soup or a head atomically, as npz for image features, or as ONNX for images.

    Args:
        path: the file.
        classifier: of a soup or a head.
        tower: the encoder whose image tower is included: ONNX takes preprocessed images (N, 3, H, W); None: npz.

    Raises:
        ModelError: the image tower cannot be exported.
        PackageError: onnx is not installed.
    """
    names = list(classifier.class_names)
    about = {"class_names": names, "made_by": f"wsoup {wsoup.__version__}", **classifier.made_of}
    file = io.BytesIO()
    if tower is None:
        np.savez(
            file,
            classifier=classifier.weights.cpu().numpy(),
            logit_scale=np.float32(classifier.logit_scale).reshape(1),
            class_names=np.array(names),
            about=np.array(_json(about)),
        )
    else:
        # ONNX keeps texts only, so what is not one goes in as JSON.
        metadata = {}
        for key, value in about.items():
            metadata[key] = value if isinstance(value, str) else _json(value)
        file.write(_onnx(classifier, tower=tower, metadata=metadata))
    store.write_bytes(path, file.getvalue())


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


class _Whole(nn.Module):
    """Preprocessed images to logits and probabilities."""

    def __init__(self, classifier: Classifier, tower: nn.Module) -> None:
        super().__init__()
        self.tower = tower
        self.classifier = classifier

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features = nn.functional.normalize(self.tower.encode_image(images), dim=-1)  # type: ignore[operator]
        logits = self.classifier.logit_scale * features @ self.classifier.weights
        return logits, logits.softmax(dim=1)


def _onnx(classifier: Classifier, *, tower: Encoder, metadata: Mapping[str, str]) -> bytes:
    """The bytes of an ONNX model for any number of images."""
    pixels = tower.preprocess(Image.new("RGB", (64, 64)))
    # Two images, since torch takes a dimension of one for a constant.
    example = torch.stack([pixels, pixels]).to(tower.device)
    with needing():
        import onnx
        import onnxscript  # noqa: F401  torch.onnx needs it
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        try:
            torch.onnx.export(
                _Whole(classifier, tower.model).eval(),
                (example,),
                file,
                input_names=["pixels"],
                output_names=["logits", "probabilities"],
                dynamic_shapes={"images": {0: "images"}},
                opset_version=OPSET,
                external_data=False,
                verbose=False,
                dynamo=True,
            )
        except Exception as error:  # the exporter wraps errors of a tower's code in its own
            raise ModelError(
                f"the image tower cannot be exported to ONNX ({one_line(error, limit=200)}); encode images where the "
                "model runs, and use --format npz"
            ) from None
        model = onnx.load(file)
    onnx.helper.set_model_props(model, dict(metadata))
    return model.SerializeToString(deterministic=True)
