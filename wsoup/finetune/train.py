"""The training loop: SGD, exponential moving average, a log, and resuming to the same weights after a kill.

Section 4 of arXiv 2311.13612: SGD with momentum, no decay of the rate, the average of the weights is what is evaluated.
In iteration t the texts are those of member t mod M of the soup.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from wsoup.core.draws import named_seed
from wsoup.core.errors import MismatchError, ParamsError
from wsoup.disk.store import read_checked, write_checked
from wsoup.finetune import losses
from wsoup.finetune.data import FewShotImages, TrainingSet, batch_positions
from wsoup.finetune.objective import Objective, needs_teacher_images
from wsoup.finetune.params import FinetuneParams, MethodParams
from wsoup.finetune.passes import IMAGES_PER_PASS, Passes
from wsoup.finetune.student import Student
from wsoup.finetune.tuners import TEXT_PROMPTS, make_student
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
        self.optimizer = torch.optim.SGD(
            self._groups(), lr=method.learning_rate, momentum=shared.momentum, weight_decay=shared.weight_decay
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
        rate, groups = self.method.learning_rate, []
        for of_prompts in (True, False):
            chosen = [p for name, p in self.parameters.items() if name.startswith(TEXT_PROMPTS) == of_prompts]
            if chosen:
                groups.append({"params": chosen, "lr": rate * (self.method.prompt_factor if of_prompts else 1)})
        return groups

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
        self._check_losses()
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                if not bool(self.average[name].isfinite().all()):
                    raise self._diverged(f"weights {name!r} are", iteration=self.iteration)
                parameter.copy_(self.average[name])
        return self.student.requires_grad_(False)

    def step(self) -> None:
        """One iteration: batch, loss, update, average, and now and then a line of the log."""
        loss, logits, images, labels = self._with_gradients()
        first = (self._not_finite < 0) & ~loss.isfinite()
        self._not_finite = torch.where(first, self.iteration + 1, self._not_finite)  # asking now would stop a GPU
        if self.iteration == 0:
            self._note(loss, logits=logits, images=images, labels=labels)  # where training starts
        self.scaler.step(self.optimizer)
        self.scaler.update()
        names = list(self.average)
        torch._foreach_lerp_(
            [self.average[name] for name in names],
            [self.parameters[name].detach() for name in names],
            1 - self.shared.ema,
        )
        self.iteration += 1
        if self.iteration % self.shared.log_every == 0 or self.iteration == self.iterations:
            self._check_losses()
            self._note(loss, logits=logits, images=images, labels=labels)
        self._keep_snapshot()

    def _with_gradients(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """This iteration's gradients: its loss (), logits, image features (B, D) and labels (B,).

        Where the device's memory does not hold the activations, they are computed again in each backward pass from here
        on, which changes no gradient.
        """
        try:
            return self._gradients()
        except torch.OutOfMemoryError:
            if self.passes.saves_memory:
                raise
        print("the device's memory is too small to keep activations: they are computed twice instead", file=sys.stderr)
        self.passes.save_memory()
        return self._gradients()

    def _gradients(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        images, teacher, labels = self._batch()
        self.optimizer.zero_grad(set_to_none=True)
        loss, logits = self.objective.backward(images, teacher, labels, iteration=self.iteration)
        return loss, logits, images.detach(), labels

    def _keep_snapshot(self) -> None:
        """Copy the averaged weights where params ask for it: {iteration: {name: tensor}} in memory."""
        wanted = self.method.snapshots
        if wanted is not None and (self.iteration % wanted.every == 0 or self.iteration == self.iterations):
            self.snapshots[self.iteration] = {name: p.detach().cpu().clone() for name, p in self.average.items()}

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
            positions = self._positions(self.iteration)
            labels = torch.from_numpy(self.source.labels[positions])
            images, teacher = self.passes.images(None, positions=torch.from_numpy(positions), teacher=needs_teacher)
        else:
            future = self._ahead.pop(self.iteration, None) or self._load(self.iteration)
            if self.iteration + 1 < self.iterations:
                self._ahead[self.iteration + 1] = self._load(self.iteration + 1)
            pixels, labels = future.result()
            images, teacher = self.passes.images(pixels, teacher=needs_teacher)
        return images, teacher, labels.to(self.encoder.device)

    def _positions(self, iteration: int) -> np.ndarray:
        size = self.method.batch_size or self.shared.batch_size
        return batch_positions(self.source.labels, batch_size=size, seed=self.seed, iteration=iteration)

    def _load(self, iteration: int) -> Future[tuple[Tensor, Tensor]]:
        """Decode and crop a batch while the model works on the one before."""
        positions = self._positions(iteration)
        return self._thread.submit(self.images.batch, positions, seed=self.seed, iteration=iteration)

    def _keeps_images(self) -> bool:
        """Whether image features are fixed, and so computed once."""
        return self.passes.trunk_is_fixed and self.shared.augment is None

    def _keep_images(self) -> None:
        groups = np.split(
            np.arange(len(self.source.labels)), range(IMAGES_PER_PASS, len(self.source.labels), IMAGES_PER_PASS)
        )
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
        tensors = {f"weight/{name}": p.detach() for name, p in self.parameters.items()}
        tensors |= {f"average/{name}": p for name, p in self.average.items()}
        for name, p in self.parameters.items():
            momentum = self.optimizer.state.get(p, {}).get("momentum_buffer")
            if momentum is not None:
                tensors[f"momentum/{name}"] = momentum
        for iteration, copies in self.snapshots.items():
            tensors |= {f"snapshot/{iteration}/{name}": copy for name, copy in copies.items()}
        state = {"iteration": self.iteration, "log": self.log, "scaler": self.scaler.state_dict()}
        tensors["state"] = torch.frombuffer(bytearray(json.dumps(state).encode()), dtype=torch.uint8)
        write_checked(path, safetensors.torch.save({k: v.cpu().contiguous() for k, v in tensors.items()}))

    def load(self, path: Path) -> None:
        """Read what `save` wrote; MismatchError where it is damaged."""
        found = safetensors.torch.load(read_checked(path))
        state = json.loads(found["state"].numpy().tobytes())
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(found[f"weight/{name}"])
                self.average[name] = found[f"average/{name}"].to(self.encoder.device)
                if f"momentum/{name}" in found:
                    momentum = found[f"momentum/{name}"].to(self.encoder.device)
                    self.optimizer.state[parameter]["momentum_buffer"] = momentum
        self.iteration, self.log, snapshots = state["iteration"], state["log"], dict[int, dict[str, Tensor]]()
        for key in found:
            kind, _, rest = key.partition("/")
            if kind == "snapshot":
                iteration, _, name = rest.partition("/")
                snapshots.setdefault(int(iteration), {})[name] = found[key]
        self.snapshots = dict(sorted(snapshots.items()))  # the file has no order
        self.scaler.load_state_dict(state["scaler"])
