"""Run the code of later methods' authors on a CPU, from checkouts of theirs: `python run_rivals.py TASK FOLDER`.

Nothing of their code is here but what stands in for CUDA and for packages that they import and do not need. Pixels,
features and batches come from `world.safetensors` of the working folder, names and settings from `world.json`.
"""

from __future__ import annotations

import contextlib
import io
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import torch
from safetensors.torch import save_file
from stand_ins import TENSORS, WORLD, read_world, stand_in


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


def clap() -> None:
    """CLAP: the class weights after its 300 epochs on the world's features, of which it has 20 copies."""
    schedulers = torch.optim.lr_scheduler
    schedulers._LRScheduler = type(  # Dassl's warm-up hands on an argument that torch has no more
        "_LRScheduler",
        (schedulers.LRScheduler,),
        {
            "__init__": lambda self, optimizer, last_epoch, _: schedulers.LRScheduler.__init__(
                self, optimizer, last_epoch
            )
        },
    )
    stand_in("dassl", __path__=[str(FOLDER / "Dassl.pytorch/dassl")])
    registry = types.SimpleNamespace(register=lambda: lambda made: made)
    stand_in("dassl.engine", TRAINER_REGISTRY=registry, SimpleTrainer=Loop)
    stand_in("dassl.metrics", compute_accuracy=lambda *_: torch.zeros(1))
    meter = types.SimpleNamespace(update=lambda *_: None, avg=0.0, meters={})
    stand_in("dassl.utils", AverageMeter=lambda: meter, MetricMeter=lambda: meter, load_checkpoint=None,
             load_pretrained_weights=None)  # fmt: skip
    for name in ("clip", "clip.simple_tokenizer", "datasets", "datasets.imagenet_templates"):
        stand_in(name, clip=None, SimpleTokenizer=object, IMAGENET_TEMPLATES=[], IMAGENET_TEMPLATES_SELECT=[])
    sys.path.insert(0, str(FOLDER / "CLAP"))
    from dassl.optim import build_lr_scheduler, build_optimizer
    from trainers import adapters

    method = types.SimpleNamespace(INIT="ZS", CONSTRAINT="l2", PREC="fp32")
    settings = types.SimpleNamespace(
        NAME="sgd", LR=0.1, MAX_EPOCH=300, LR_SCHEDULER="cosine", WARMUP_EPOCH=1, WARMUP_TYPE="constant",
        WARMUP_CONS_LR=1e-5, WEIGHT_DECAY=0.0, MOMENTUM=0.9, SGD_DAMPNING=0, SGD_NESTEROV=False, RMSPROP_ALPHA=0.99,
        ADAM_BETA1=0.9, ADAM_BETA2=0.999, STAGED_LR=False, NEW_LAYERS=(), BASE_LR_MULT=0.1, STEPSIZE=(-1,), GAMMA=0.1,
        WARMUP_RECOUNT=True,
    )  # fmt: skip
    model = adapters.CustomCLIP.__new__(adapters.CustomCLIP)
    torch.nn.Module.__init__(model)
    model.logit_scale = torch.nn.Parameter(torch.tensor(WORLD["logit_scale"]).log(), requires_grad=False)
    tower = types.SimpleNamespace(dtype=torch.float32, logit_scale=model.logit_scale)
    cfg = types.SimpleNamespace(
        TRAINER=types.SimpleNamespace(ADAPTER=method), OPTIM=settings, TRAIN=types.SimpleNamespace(PRINT_FREQ=1000)
    )
    model.adapter = adapters.AdapterMethod(cfg, tower, TENSORS["texts"])
    trainer = adapters.ADAPTER.__new__(adapters.ADAPTER)
    trainer.cfg, trainer.model, trainer.device = cfg, model, torch.device("cpu")
    trainer.start_epoch, trainer.max_epoch = 0, 300
    trainer.train_loader_x = type("Loader", (), {"batch_size": 256, "__len__": lambda _: WORLD["batches"]})()
    trainer.optim = build_optimizer(model.adapter, settings)
    trainer.sched = build_lr_scheduler(trainer.optim, settings)
    features, labels = TENSORS["features"].repeat(20, 1), TENSORS["labels"].repeat(20)
    trainer.extract_features = lambda **_: (labels, model.forward_lp(features).detach(), features)
    np.random.seed(0)  # noqa: NPY002 (their code draws from it)
    trainer.train()
    save_file({"weights": model.adapter.prototypes.detach()}, "clap.safetensors")


class Loop:
    """In place of Dassl's trainer: what one step and one epoch are."""

    optim: Any
    sched: Any

    def __getattr__(self, name: str) -> Any:
        quiet = ("set_model_mode", "before_train", "before_epoch", "after_epoch", "close_writer", "write_scalar")
        if name in quiet or name == "get_current_lr":
            return lambda *_: 0.0
        if name == "time_start":
            return 0.0
        raise AttributeError(name)

    def model_backward_and_update(self, loss: torch.Tensor) -> None:
        """A step of the optimizer."""
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()

    def update_lr(self) -> None:
        """The rate of the next epoch."""
        self.sched.step()


if __name__ == "__main__":
    task, given = sys.argv[1:]
    FOLDER = Path(given)
    read_world()
    on_this_machine()
    with contextlib.redirect_stdout(io.StringIO()):
        {"two_stage": two_stage, "clap": clap}[task]()
