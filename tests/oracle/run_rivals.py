"""Run the code of later methods' authors on a CPU, from checkouts of theirs: `python run_rivals.py TASK FOLDER`.

Nothing of their code is here but what stands in for CUDA and for packages that they import and do not need. Pixels,
features and batches come from `world.safetensors` of the working folder, names and settings from `world.json`.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import open_clip
import torch
from safetensors.torch import load_file, save_file

WORLD: dict[str, Any] = {}
TENSORS: dict[str, torch.Tensor] = {}


def stand_in(name: str, **attributes: Any) -> types.ModuleType:
    """An empty module in place of one that a script imports."""
    module = types.ModuleType(name)
    module.__dict__.update(attributes)
    sys.modules[name] = module
    return module


def on_this_machine() -> None:
    """Tensors and models stay on the CPU."""
    moved = torch.Tensor.to
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *_, **__: self  # type: ignore[method-assign,assignment]
    torch.Tensor.to = lambda self, *a, **k: self if a == ("cuda",) else moved(self, *a, **k)  # type: ignore[method-assign,assignment]


class Batches:
    """The world's batches in their order, wherever a loop over them begins."""

    def __init__(self, pixels: torch.Tensor, labels: torch.Tensor) -> None:
        self.left = iter(list(zip(pixels, labels, strict=True)))

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return self.left


def two_stage() -> None:
    """2SFS: what both stages trained, and what the model answers for classes of which it has seen some."""
    open_clip.add_model_config(Path(WORLD["config"]))
    model, _, _ = open_clip.create_model_and_transforms(WORLD["model"], pretrained=WORLD["weights"])
    tokenizer = open_clip.get_tokenizer(WORLD["model"])
    stand_in("clip", tokenize=tokenizer)
    sys.path.insert(0, str(FOLDER / "rethinking_fewshot_vlms"))
    from fs import twostage

    made: dict[str, torch.Tensor] = {}

    def keep(model: Any, pixels: torch.Tensor, *, template: str, classnames: list[str]) -> float:
        """In place of counting what is right: the logits, and all that was trained."""
        model.eval()
        made["logits"] = model.infer(pixels, categories=classnames, template=template)
        made["class_weights"] = model.classifier.detach()
        for name, parameter in model.clip_model.named_parameters():
            if ".resblocks." in name and ".ln_" in name:
                made[f"model.{name}"] = parameter.detach()
        return 0.0

    twostage.evaluate_selective_inference = keep
    twostage.cls_acc = lambda *_: 0.0  # of training images, for their log; it asks for NumPy 1
    norms = {"peft": "ln", "ln_modality": "both", "ln_vision_start": 0, "ln_text_start": 0}
    args = types.SimpleNamespace(**norms, **WORLD["args"], setting="base2new", debug=False)
    dataset = types.SimpleNamespace(
        template=[WORLD["template"]],
        classnames=WORLD["class_names"],
        test_classnames=WORLD["asked"],
        test_new_classnames=WORLD["asked"],
    )
    batches = Batches(TENSORS["pixels"], TENSORS["labels"])
    twostage.run_twostage(args, model, None, dataset, batches, None, (TENSORS["test"], TENSORS["test"]))
    save_file({name: tensor.contiguous() for name, tensor in made.items()}, "two_stage.safetensors")


if __name__ == "__main__":
    task, given = sys.argv[1:]
    FOLDER = Path(given)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    on_this_machine()
    WORLD.update(json.loads(Path("world.json").read_text()))
    TENSORS.update(load_file("world.safetensors"))
    with contextlib.redirect_stdout(io.StringIO()):
        {"two_stage": two_stage}[task]()
