"""The training loop: SGD, exponential moving average, a log, and resuming to the same weights after a kill.

Section 4 of arXiv 2311.13612: SGD with momentum, no decay of the rate, the average of the weights is what is evaluated.
In iteration t the texts are those of member t mod M of the soup.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from wsoup.core.disk.store import read_checked, write_checked
from wsoup.core.draws import named_seed
from wsoup.core.errors import MismatchError, ParamsError
from wsoup.finetune import losses
from wsoup.finetune.added import LowRank
from wsoup.finetune.data import FewShotImages, TrainingSet, batch_positions, wrapped_positions
from wsoup.finetune.objective import Objective, needs_teacher_images
from wsoup.finetune.params import FinetuneParams, MethodParams
from wsoup.finetune.passes import IMAGES_PER_PASS, Passes
from wsoup.finetune.sgd import SGD
from wsoup.finetune.student import Student
from wsoup.finetune.tuners import TEXT_PROMPTS, make_student
from wsoup.finetune.turns import turns_of
from wsoup.runtime.work import SAVE_SECONDS
from wsoup.towers.encoder import Encoder


class Trainer:
    """One method with one seed.

    Args:
        encoder: the pretrained model.
        source: what is trained on.
        method: what is trained, with which loss.
        shared: what all methods share.
        seed: of batches, crops and starting values.
        save_memory: recompute activations in the backward pass instead of keeping them.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        source: TrainingSet,
        method: MethodParams,
        shared: FinetuneParams,
        seed: int,
        save_memory: bool = False,
    ) -> None:
        self.encoder, self.source, self.method, self.shared, self.seed = encoder, source, method, shared, seed
        self.iterations = method.iterations or shared.iterations
        self.student = make_student(
            encoder.model,
            tokenizer=encoder.tokenizer,
            tune=method.tune,
            template=source.template,
            generator=torch.Generator().manual_seed(named_seed(seed, "start")),
            soup=source.soup,
        )
        self.parameters = self.student.trained()
        self.average = {name: p.detach().clone() for name, p in self.parameters.items()}
        self.turns = turns_of(self.student, method=method, iterations=self.iterations)
        entries = 2 if getattr(method.tune, "opens", "both") == "image_twice" else 1
        self.optimizer = SGD(
            self._groups(), momentum=shared.momentum, weight_decay=shared.weight_decay, entries=entries
        )
        self.scaler = torch.amp.GradScaler(encoder.device.type, enabled=encoder.dtype == torch.float16)
        self.images = FewShotImages(
            source.paths,
            labels=source.labels,
            encoder=encoder,
            augment=shared.augment,
            digests=source.digests,
        )
        self.passes = Passes(
            encoder,
            student=self.student,
            class_names=source.class_names,
            template=source.template,
            soup=source.soup[: method.members],
            save_memory=save_memory,
        )
        self.objective = Objective(
            self.passes,
            loss=method.loss,
            logit_scale=shared.logit_scale,
            parameters=list(self.parameters.values()),
            scaler=self.scaler,
        )
        self.iteration = 0
        self._not_finite = torch.full((), -1, device=encoder.device)  # the first iteration with such a loss, or -1
        self.log: list[dict[str, float]] = []
        self.snapshots: dict[int, dict[str, Tensor]] = {}
        self._keep_snapshot()
        self._ahead: dict[int, Future[tuple[Tensor, Tensor]]] = {}
        self._thread = ThreadPoolExecutor(max_workers=1)

    def _groups(self) -> list[dict[str, Any]]:
        """Text prompts at `prompt_factor` times the learning rate, the rest at the learning rate."""
        rate = self.method.learning_rate
        rates = {True: rate * self.method.prompt_factor, False: rate}
        groups: dict[bool, list[torch.nn.Parameter]] = {True: [], False: []}
        for name, parameter in self.parameters.items():
            groups[name.startswith(TEXT_PROMPTS)].append(parameter)
        return [{"params": chosen, "lr": rates[prompts]} for prompts, chosen in groups.items() if chosen]

    # ----------------------------------------------------------------------------------------------------- run

    def run(
        self,
        *,
        resume: Path | None = None,
        save_seconds: float = SAVE_SECONDS,
        progress: Callable[[Iterable[int]], Iterable[int]] = iter,
    ) -> Student:
        """Train to the end and return the student with the averaged weights, closed for training.

        Args:
            resume: file that the state is saved in now and then, and begun from where it exists.
            save_seconds: how often.
            progress: wrapped around the iterations that are left.

        Raises:
            ParamsError: a loss or an averaged weight is NaN or infinite; names the iteration.
        """
        if resume is not None and resume.exists():
            try:
                self.load(resume)
            except MismatchError as error:
                print(f"{error}: training starts again", file=sys.stderr)
        if self._keeps_images() and self.iteration < self.iterations:
            self._keep_images()
        saved = time.monotonic()
        for _ in progress(range(self.iteration, self.iterations)):
            self.step()
            if resume is not None and time.monotonic() - saved >= save_seconds:
                self._check_losses()
                self.save(resume)
                saved = time.monotonic()
        return self._finished()

    def _finished(self) -> Student:
        """The student with the averaged weights."""
        self._check_losses()
        with torch.no_grad():
            for name, weights in self._averages().items():
                if not bool(weights.isfinite().all()):
                    raise self._diverged(f"weights {name!r} are", iteration=self.iteration)
                self.parameters[name].copy_(weights)
            for piled in self._piled().values():
                piled.zero_()
        return self.student.requires_grad_(False)

    def _averages(self) -> Mapping[str, Tensor]:
        """The averaged weights as they stand; with turns, of all of them."""
        return self.average if self.turns is None else self.turns.result(self.average, iteration=self.iteration)

    def _piled(self) -> dict[str, Tensor]:
        """Low-rank updates that earlier passes have left in the weights."""
        return {name: buffer for name, buffer in self.student.named_buffers() if name.endswith(".piled")}

    def step(self) -> None:
        """One iteration: batch, loss, update, average, and now and then a line of the log."""
        turn = self.iteration
        if self.turns is not None:
            turn = self.turns.of(self.iteration)
            if self.turns.begins(self.iteration):
                self.turns.start_over(self.student, self.average, iteration=self.iteration)
                self.optimizer.directions.clear()
        loss, logits, images, labels = self._with_gradients(turn)
        first = (self._not_finite < 0) & ~loss.isfinite()
        self._not_finite = torch.where(first, self.iteration + 1, self._not_finite)  # asking now would stop a GPU
        if self.iteration == 0:
            self._note(loss, logits=logits, images=images, labels=labels)  # where training starts
        for module in self.student.modules():
            if isinstance(module, LowRank):
                module.pile_up()
        self.scaler.step(self.optimizer)  # type: ignore[arg-type]  # of an optimizer it wants no more than ours has
        self.scaler.update()
        weights = [self.parameters[name].detach() for name in self.average]
        torch._foreach_lerp_(list(self.average.values()), weights, 1 - self.shared.ema)
        self.iteration += 1
        if self.iteration % self.shared.log_every == 0 or self.iteration == self.iterations:
            self._check_losses()
            self._note(loss, logits=logits, images=images, labels=labels)
        self._keep_snapshot()

    def _with_gradients(self, turn: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """This iteration's gradients: its loss (), logits, image features (B, D) and labels (B,).

        Where the device's memory does not hold the activations, they are computed again in each backward pass from here
        on, which changes no gradient.
        """
        try:
            return self._gradients(turn)
        except torch.OutOfMemoryError:
            if self.passes.saves_memory:
                raise
        print("the device's memory is too small to keep activations: they are computed twice instead", file=sys.stderr)
        self.passes.save_memory()
        return self._gradients(turn)

    def _gradients(self, turn: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        images, teacher, labels = self._batch()
        for parameter in self.parameters.values():
            parameter.grad = None
        loss, logits = self.objective.backward(images, teacher, labels, iteration=turn)
        return loss, logits, images.detach(), labels

    def _keep_snapshot(self) -> None:
        """Copy the averaged weights where params ask for it: {iteration: {name: tensor}} in memory."""
        wanted = self.method.snapshots
        if wanted is not None and (self.iteration % wanted.every == 0 or self.iteration == self.iterations):
            averages = self._averages()
            now = {name: averages.get(name, p.detach()) for name, p in self.student.stored().items()}
            self.snapshots[self.iteration] = {name: weights.cpu().clone() for name, weights in now.items()}

    def _check_losses(self) -> None:
        if int(self._not_finite) >= 0:
            raise self._diverged("the loss is", iteration=int(self._not_finite))

    def _diverged(self, what: str, *, iteration: int) -> ParamsError:
        return ParamsError(
            f"training {self.method.tune.kind} with seed {self.seed}: {what} not finite (NaN or infinity) in iteration "
            f"{iteration} of {self.iterations}; lower learning_rate ({self.method.learning_rate:g}) or prompt_factor "
            f"({self.method.prompt_factor:g}) of this method in params.yaml"
        )

    def _batch(self) -> tuple[Tensor, Tensor | None, Tensor]:
        """Student's and teacher's image features (B, D) and labels (B,) of this iteration's batch."""
        needs_teacher = needs_teacher_images(self.method.loss)
        if self._keeps_images():
            positions = torch.from_numpy(self._positions(self.iteration))
            labels = torch.from_numpy(self.source.labels)[positions]
            images, teacher = self.passes.images(None, positions=positions, teacher=needs_teacher)
        else:
            future = self._ahead.pop(self.iteration, None) or self._load(self.iteration)
            if self.iteration + 1 < self.iterations:
                self._ahead[self.iteration + 1] = self._load(self.iteration + 1)
            pixels, labels = future.result()
            images, teacher = self.passes.images(pixels, teacher=needs_teacher)
        return images, teacher, labels.to(self.encoder.device)

    def _positions(self, iteration: int) -> np.ndarray:
        size = self.method.batch_size or self.shared.batch_size
        positions = wrapped_positions if self.shared.batches == "wrapped" else batch_positions
        return positions(self.source.labels, batch_size=size, seed=self.seed, iteration=iteration)

    def _load(self, iteration: int) -> Future[tuple[Tensor, Tensor]]:
        """Draw, decode and crop a batch while the model works on the one before."""
        return self._thread.submit(
            lambda: self.images.batch(self._positions(iteration), seed=self.seed, iteration=iteration)
        )

    def _keeps_images(self) -> bool:
        """Whether image features are fixed, and so computed once."""
        return self.passes.trunk_is_fixed and self.shared.augment is None

    def _keep_images(self) -> None:
        n = len(self.source.labels)
        groups = np.split(np.arange(n), range(IMAGES_PER_PASS, n, IMAGES_PER_PASS))
        self.passes.keep_images([self.images.batch(group, seed=self.seed, iteration=0)[0] for group in groups])

    def _note(self, loss: Tensor, *, logits: Tensor, images: Tensor, labels: Tensor) -> None:
        """A line of the log; the members' predictions are those of the student as it stands now."""
        answers = torch.arange(len(labels), device=labels.device) if self.objective.in_batch else labels
        with torch.no_grad():
            scores = [self.shared.logit_scale * images @ self.passes.texts(i).T for i in range(self.passes.members)]
            divergence = losses.members_divergence(torch.stack(scores).softmax(dim=-1))
        self.log.append(
            {
                "iteration": self.iteration,
                "loss": float(loss),
                "n_correct": int((logits.argmax(dim=1) == answers).sum()),
                "n_images": len(labels),
                "members_kl": divergence,
            }
        )

    # -------------------------------------------------------------------------------------------------- resume

    def save(self, path: Path) -> None:
        """Write weights, averages, momentum, loss scale, log and iteration; batches and crops follow from those."""
        moving = {name: self.optimizer.directions.get(p) for name, p in self.parameters.items()}
        groups: dict[str, Mapping[str, Tensor]] = {
            "weight": {name: p.detach() for name, p in self.parameters.items()},
            "average": self.average,
            "momentum": {name: momentum for name, momentum in moving.items() if momentum is not None},
            "finished": {} if self.turns is None else {"": self.turns.finished},
            "piled": self._piled(),
            **{f"snapshot/{iteration}": copies for iteration, copies in self.snapshots.items()},
        }
        tensors = {f"{group}/{name}": t for group, named in groups.items() for name, t in named.items()}
        state = {"iteration": self.iteration, "log": self.log, "scaler": self.scaler.state_dict()}
        tensors["state"] = torch.frombuffer(bytearray(json.dumps(state).encode()), dtype=torch.uint8)
        write_checked(path, safetensors.torch.save({k: v.cpu().contiguous() for k, v in tensors.items()}))

    def load(self, path: Path) -> None:
        """Read what `save` wrote; MismatchError where it is damaged."""
        tensors, device = safetensors.torch.load(read_checked(path)), self.encoder.device
        state, groups = json.loads(tensors.pop("state").numpy().tobytes()), defaultdict[str, dict[str, Tensor]](dict)
        for key, tensor in tensors.items():
            group, _, name = key.rpartition("/")
            groups[group][name] = tensor
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(groups["weight"][name])
                self.average[name] = groups["average"][name].to(device)
        if self.turns is not None:
            self.turns.finished = groups["finished"][""].to(device)
        for name, piled in self._piled().items():
            piled.copy_(groups["piled"][name])
        for name, momentum in groups["momentum"].items():
            self.optimizer.directions[self.parameters[name]] = momentum.to(device)
        copies = {int(group.partition("/")[2]): groups[group] for group in groups if group.startswith("snapshot/")}
        self.snapshots = dict(sorted(copies.items()))  # the file has no order
        self.iteration, self.log = state["iteration"], state["log"]
        self.scaler.load_state_dict(state["scaler"])
