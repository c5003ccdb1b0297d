"""Run the authors' own scripts on a CPU, from a checkout of theirs: `python run_theirs.py TASK AUTHORS`.

The scripts ask for CUDA, dassl, datasets on disk and open_clip 2. What stands in for those is here, and nothing of the
authors' code: their files are executed as they are, but for the replacements that a task names. Image features and
batches come from `world.safetensors` of the working folder, names and settings from `world.json`; what the scripts made
goes to the same folder.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import random
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import open_clip
import torch
from safetensors.torch import save_file
from stand_ins import TENSORS, WORLD, read_world, stand_in

# ------------------------------------------------------------------------------------------- what stands in for CUDA


def on_this_machine() -> None:
    """Tensors stay on the CPU, sorts are stable, and open_clip makes the model of the test with their axes."""
    registry = types.SimpleNamespace(register=lambda: lambda made: made)
    stand_in("pytorch_metric_learning", miners=None, losses=None)
    stand_in("matplotlib").pyplot = stand_in("matplotlib.pyplot")  # type: ignore[attr-defined]
    stand_in("dassl"), stand_in("dassl.data")
    stand_in("dassl.data.datasets", DATASET_REGISTRY=registry, Datum=types.SimpleNamespace, DatasetBase=object)
    stand_in("dassl.utils", listdir_nohidden=None, mkdir_if_missing=None, read_json=None, write_json=None)
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *_, **__: self  # type: ignore[method-assign,assignment]
    eye, sort, loader, load = torch.eye, torch.Tensor.sort, torch.utils.data.DataLoader, torch.load
    torch.eye = lambda *a, **k: eye(*a, **{name: value for name, value in k.items() if name != "device"})
    torch.Tensor.sort = lambda self, **k: sort(self, stable=True, **{"dim": -1, **k})  # type: ignore[method-assign]
    torch.load = lambda *a, **k: load(*a, **{"weights_only": False, **k})
    torch.utils.data.DataLoader = lambda *a, **k: loader(*a, **{**k, "num_workers": 0, "pin_memory": False})  # type: ignore[misc,assignment]
    create = open_clip.create_model_and_transforms
    open_clip.add_model_config(Path(WORLD["config"]))

    def made(*_: Any, **__: Any) -> Any:
        model, *transforms = create(WORLD["model"], pretrained=WORLD["weights"])
        for module in model.modules():
            if isinstance(module, torch.nn.MultiheadAttention):
                module.batch_first = False  # open_clip 2 put positions first
        return model.eval(), *transforms

    open_clip.create_model_and_transforms = made
    tokenizer = open_clip.get_tokenizer(WORLD["model"])
    open_clip.get_tokenizer = lambda *_, **__: tokenizer


class Dataset:
    """One of the world's datasets, by the authors' interface."""

    name = ""

    def __init__(self, cfg: Any) -> None:
        self.classnames = WORLD["datasets"][self.name]["class_names"]
        self.train_x, self.test = self._items(f"train{cfg.SEED}"), self._items("test")
        self.val: list[Any] = []

    def _items(self, split: str) -> list[Any]:
        labels = TENSORS.get(f"{self.name}/{split}/labels", torch.empty(0))
        return [types.SimpleNamespace(impath=f"{self.name}/{split}|{i}", label=int(y)) for i, y in enumerate(labels)]


def kept_features(loader: Any, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """In place of their pass through the image tower: the features that both sides are given."""
    rows = [(path.split("|"), label) for path, label in loader.dataset.imgs]
    features = [TENSORS[f"{place}/features"][int(i)] for (place, i), _ in rows]
    return torch.stack(features), torch.tensor([label for _, label in rows])


def with_the_worlds_datasets() -> None:
    """Their datasets, features and ImageNet's files, exchanged for the world's."""
    import source.trainer as trainer
    import source.utils as utils

    trainer.dataset_classes.clear()
    trainer.dataset_classes.update({name: type(name, (Dataset,), {"name": name}) for name in WORLD["datasets"]})
    for module in (trainer, utils):
        module.get_features = kept_features
        module.get_imagenet_val_dataset = lambda *_, **__: (None, None)


def run(script: str, arguments: list[str], *, replaced: dict[str, str] | None = None) -> dict[str, Any]:
    """Execute one of their scripts as if from a shell, quietly; its variables."""
    text = (Path(sys.path[0]) / script).read_text()
    for old, new in (replaced or {}).items():
        assert old in text, old
        text = text.replace(old, new)
    sys.argv = [script, *arguments, "--modelname", WORLD["model"], "--pretrained", "real", "--d", str(WORLD["size"])]
    variables: dict[str, Any] = {"__name__": "__main__", "__file__": script}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(text, script, "exec"), variables)
    return variables


# ------------------------------------------------------------------------------------------------------------- tasks


def search() -> None:
    """Counts of every word and descriptor on the few-shot images of each seed, greedy soups and word chains."""
    from wsoup.core.draws import member_generator

    with_the_worlds_datasets()
    result: dict[str, Any] = {"counts": {}, "greedy": {}, "chains": {}}
    source, shape = WORLD["source"], WORLD["chains"]
    for pool, name in (("descriptors", "description_features"), ("words", "word_features")):
        ending = "." if pool == "descriptors" else ""
        torch.save([f" {text}{ending}" for text in WORLD[pool]], f"{pool}.list")
        run("preprocess/generate_description_features.py",
            ["--dataset", source, "--descriptions", f"{pool}.list", "--savename", name])  # fmt: skip
        _, texts = torch.load(f"cache/{name}__{WORLD['model']}_real.tensor")
        for seed in WORLD["seeds"]:
            images, labels = (TENSORS[f"{source}/train{seed}/{part}"] for part in ("features", "labels"))
            counts = [int(((images @ text.T).max(1).indices == labels).sum()) for text in texts]
            result["counts"][f"{pool}{seed}"] = counts
    shuffle, randperm = random.shuffle, torch.randperm
    for seed in WORLD["seeds"]:
        where = ["--dataset", source, "--seed", str(seed)]
        run("preprocess/get_greedy_descriptor_soup.py", where)
        result["greedy"][seed] = torch.load(f"cache/good_descriptions_seed{seed}__{WORLD['model']}_real.list")
        drawn = {"member": 0, "first": 0}

        def shuffled(words: list[str], *, seed: int = seed, drawn: dict[str, int] = drawn) -> None:
            generator = member_generator(purpose="word_soup", seed=seed, member=drawn["member"])
            drawn.update(first=int(generator.integers(shape["k0"])), member=drawn["member"] + 1)
            words[:] = [words[i] for i in generator.permutation(len(words))]

        random.shuffle = shuffled  # type: ignore[assignment]
        torch.randperm = lambda *_, drawn=drawn: torch.tensor([drawn["first"]])  # type: ignore[misc,assignment]
        numbers = {"k0": "k0", "k1": "k1", "patience": "patience", "n_descriptors": "m", "max_word_length": "max_words"}
        given = [part for name, key in numbers.items() for part in (f"--{name}", str(shape[key]))]
        run("preprocess/get_greedy_word_soup.py", [*where, *given])
        random.shuffle, torch.randperm = shuffle, randperm
        result["chains"][seed] = torch.load(f"cache/word_soup_descriptors_seed{seed}__{WORLD['model']}_real.list")
    Path("search.json").write_text(json.dumps(result))


def evaluate() -> None:
    """Zero-shot accuracies of every row that their evaluation has, on every dataset."""
    with_the_worlds_datasets()
    for name, texts in (
        ("word_soup_descriptors", WORLD["soups"]["word"]),
        ("good_descriptions", WORLD["soups"]["descriptor"]),
    ):
        torch.save([f" {text}." for text in texts], f"cache/{name}_seed1__{WORLD['model']}_real.list")
    rows = [
        "openai_eval",
        "gpt_centroid_eval",
        "gpt_score_averaging_eval",
        "soup_eval",
        "token_offset_eval",
        "score_averaging",
    ]
    made = run(
        "main_crossdataset.py",
        ["--seed", "1", "--eval_only", "1", *(part for row in rows for part in (f"--{row}", "1"))],
        replaced={
            "for i in range(500):": "for i in range(0):",
            "args.dataset = 'ImageNet' # source dataset": f"args.dataset = {WORLD['source']!r}",
            "token_offsets=[0, 5, 10, 15, 20, 25]": f"token_offsets={WORLD['offsets']}",
            "if not dataset in ['ImageNet']:": "if True:",
        },
    )
    Path("evaluate.json").write_text(json.dumps({"metrics": made["metrics"], "accuracies": made["return_dict"]}))


def train() -> None:
    """The averaged weights after some steps of each method of the world, from its starting values and batches."""
    import source.models as models
    import source.trainer as trainer
    from argparse_parameters import get_arg_parser

    (label,) = WORLD["datasets"]
    names = WORLD["datasets"][label]["class_names"]
    tokenizer = open_clip.get_tokenizer(WORLD["model"])
    stems = [WORLD["template"].format(name) for name in names]
    averages: dict[str, torch.Tensor] = {}
    for method, about in WORLD["methods"].items():
        given = ["--d", str(WORLD["size"]), "--modelname", WORLD["model"], *about["arguments"]]
        args = get_arg_parser().parse_args([*given, "--layer_start_v", "1", "--layer_start_t", "1"])
        args.dataset = label

        def build(args: Any = args) -> Any:
            return models.MyClip(
                WORLD["model"], "real", len(names), args.d, temp=args.temp, args=args, tokenizer=tokenizer,
                tokenized_text_prototypes=tokenizer(stems), descriptors=[" which is red."],
            )  # fmt: skip

        plain = copy.deepcopy(args)
        plain.maple = plain.visual_prompt_depth = 0
        plain.text_prompt_depth = 1
        for part in range(about["parts"]):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                model, frozen = build(), build(plain).eval()
                start = {
                    key.removeprefix(f"{method}/start/"): t
                    for key, t in TENSORS.items()
                    if key.startswith(f"{method}/start/")
                }
                average = _trained(
                    trainer,
                    args,
                    model,
                    frozen,
                    about,
                    start=start,
                    part=part,
                    method=method,
                    stems=stems,
                    tokenizer=tokenizer,
                )
            for name in start:
                averages[f"{method}/{name}" + (f"/{part}" if about["parts"] > 1 else "")] = (
                    average[name].detach().clone()
                )
    save_file(averages, "train.safetensors")


def _trained(
    trainer: Any,
    args: Any,
    model: Any,
    frozen: Any,
    about: Any,
    *,
    start: Any,
    part: int,
    method: str,
    stems: list[str],
    tokenizer: Any,
) -> dict[str, Any]:
    """One run of their loop; the averaged model's parameters by name."""
    own = dict(model.named_parameters())
    if about["parts"] > 1:  # one soft descriptor of an ensemble
        model.shallow_prompt.swap_suffix(" which is red.", model)
        model.shallow_prompt.suffix_vectors = torch.nn.Parameter(start["shallow_prompt.suffix_vectors"][part].clone())
    with torch.no_grad():
        for name, tensor in start.items():
            if name in own:
                own[name].copy_(tensor)
    if "proda_descriptor_vectors" in start:
        trainer.get_soft_tokens = lambda *_: start["proda_descriptor_vectors"].clone()
    steps, first = args.iters_per_epoch, part * args.iters_per_epoch
    batches = iter(
        [(TENSORS[f"{method}/pixels"][first + i], TENSORS[f"{method}/labels"][first + i]) for i in range(steps)]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parameters that stand twice in the optimizer
        optimizer, scheduler, scaler = trainer.get_optimizer(
            args, trainer.get_params(args, model, descriptor_strings=[])
        )
    texts = None
    if args.train_with_descriptors:
        texts = torch.stack([tokenizer([f"{stem[:-1]}, {text}." for stem in stems]) for text in WORLD["soup"]])
    loop = trainer.prograd_train_loop if about["loop"] == "prograd" else trainer.train_loop
    _, average = loop(
        args, model, copy.deepcopy(model), batches, len(stems), None, scaler, optimizer, scheduler, tokenizer=tokenizer,
        init_frozen_model=frozen, tokenized_text_with_descriptors=texts,
    )  # fmt: skip
    return dict(average.named_parameters())


if __name__ == "__main__":
    task, authors = sys.argv[1:]
    read_world()
    for folder in ("cache", "gpt_descriptors"):
        os.makedirs(folder, exist_ok=True)
    on_this_machine()
    sys.path.insert(0, authors)
    {"search": search, "evaluate": evaluate, "train": train}[task]()
