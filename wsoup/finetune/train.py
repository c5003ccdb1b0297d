"""The training loop: SGD with momentum, an average of the weights, a log, and a resume state.

As in section 4 of arXiv 2311.13612 the learning rate is constant and the exponential moving average of the weights is
evaluated. Iteration t uses the texts of member t mod M of the soup. A killed training resumes to the same weights.
"""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from wsoup.base.errors import MismatchError, ParamsError
from wsoup.core.draws import named_seed
from wsoup.disk.store import read_checked, write_checked
from wsoup.finetune import losses
from wsoup.finetune.data import FewShotImages, TrainingSet, batch_positions, wrapped_positions
from wsoup.finetune.losses import Objective, needs_teacher_images
from wsoup.finetune.params import FinetuneParams, MethodParams
from wsoup.finetune.passes import IMAGES_PER_PASS, Passes
from wsoup.finetune.student import Student
from wsoup.finetune.tuners import TEXT_PROMPTS, LowRank, make_student
from wsoup.finetune.weights import SGD, Group, ensemble_of
from wsoup.runtime.progress import tick
from wsoup.runtime.work import SAVE_SECONDS
from wsoup.towers.encoder import Encoder


class Trainer:
    """One method with one seed.

    Args:
        encoder: the pretrained model.
        source: images and texts to train on.
        method: what is trained, and the loss.
        shared: settings of all methods.
        seed: of batches, crops and initial values.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        source: TrainingSet,
        method: MethodParams,
        shared: FinetuneParams,
        seed: int,
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
            words=source.words,
        )
        self.parameters = self.student.trained()
        self.average = {name: p.detach().clone() for name, p in self.parameters.items()}
        self.ensemble = ensemble_of(self.student, method=method, iterations=self.iterations)
        entries = 2 if getattr(method.tune, "opens", "both") == "image_twice" else 1
        self.optimizer = SGD(
            self._parameter_groups(), momentum=shared.momentum, weight_decay=shared.weight_decay, entries=entries
        )
        self.scaler = torch.amp.GradScaler(encoder.device.type, enabled=encoder.dtype == torch.float16)
        self.images = FewShotImages(source, encoder=encoder, augment=shared.augment)
        self.passes = Passes(
            encoder,
            student=self.student,
            class_names=source.class_names,
            template=source.template,
            soup=source.soup[: method.members],
        )
        trained = list(self.parameters.values())
        self.objective = Objective(
            self.passes, loss=method.loss, logit_scale=shared.logit_scale, parameters=trained, scaler=self.scaler
        )
        self.iteration = 0
        self._not_finite = torch.full((), -1, device=encoder.device)  # first iteration with such a loss, or -1
        self.log: list[dict[str, float]] = []
        self.snapshots: dict[int, dict[str, Tensor]] = {}
        self._keep_snapshot()
        self._ahead: dict[int, Future[tuple[Tensor, Tensor]]] = {}
        self._thread = ThreadPoolExecutor(max_workers=1)

    def _parameter_groups(self) -> list[Group]:
        """Text prompts with `prompt_factor` times the learning rate, and the other parameters."""
        rate = self.method.learning_rate
        prompts = {name: p for name, p in self.parameters.items() if name.startswith(TEXT_PROMPTS)}
        others = [p for name, p in self.parameters.items() if name not in prompts]
        groups = [(list(prompts.values()), rate * self.method.prompt_factor), (others, rate)]
        return [{"params": parameters, "lr": rate} for parameters, rate in groups if parameters]

    # ----------------------------------------------------------------------------------------------------- run

    def run(
        self,
        *,
        resume: Path | None = None,
        save_seconds: float = SAVE_SECONDS,
    ) -> Student:
        """Train to the end and return the student with the averaged weights, frozen; moves the current progress bar.

        Args:
            resume: file for the state, to resume from if it exists; None saves no state.
            save_seconds: time between two saves.

        Raises:
            ParamsError: a loss or an averaged weight is NaN or infinite.
        """
        if resume is not None and resume.exists():
            try:
                self.load(resume)
            except MismatchError as error:
                print(f"{error}: training starts again", file=sys.stderr)
        if self._keeps_images() and self.iteration < self.iterations:
            self._keep_images()
        tick(self.iteration)
        saved = time.monotonic()
        while self.iteration < self.iterations:
            self.step()
            tick(1)
            if resume is not None and time.monotonic() - saved >= save_seconds:
                self._check_losses()
                self.save(resume)
                saved = time.monotonic()
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
        """The current averaged weights; of an ensemble, of all its members."""
        if self.ensemble is None:
            return self.average
        return self.ensemble.averages(self.average, iteration=self.iteration)

    def _piled(self) -> dict[str, Tensor]:
        """Sums of the low-rank updates that pile up."""
        return {name: buffer for name, buffer in self.student.named_buffers() if name.endswith(".piled")}

    def step(self) -> None:
        """One iteration: batch, loss, update, average, perhaps a row of the log."""
        member = self.iteration
        if self.ensemble is not None:
            member = self.ensemble.member(self.iteration)
            if self.ensemble.is_next(self.iteration):
                self.ensemble.start_next(self.student, self.average, iteration=self.iteration)
                self.optimizer.momentum_buffers.clear()
        loss, logits, images, labels = self._with_gradients(member)
        # Checked later, because that waits for the GPU.
        first = (self._not_finite < 0) & ~loss.isfinite()
        self._not_finite = torch.where(first, self.iteration + 1, self._not_finite)
        if self.iteration == 0:
            self._log_row(loss, logits=logits, images=images, labels=labels)
        for module in self.student.modules():
            if isinstance(module, LowRank):
                module.pile_up()
        self.scaler.step(self.optimizer)  # type: ignore[arg-type]  # ours has all that it uses of an optimizer
        self.scaler.update()
        weights = [self.parameters[name].detach() for name in self.average]
        torch._foreach_lerp_(list(self.average.values()), weights, 1 - self.shared.ema)
        self.iteration += 1
        if self.iteration % self.shared.log_every == 0 or self.iteration == self.iterations:
            self._check_losses()
            self._log_row(loss, logits=logits, images=images, labels=labels)
        self._keep_snapshot()

    def _with_gradients(self, member: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Compute gradients; returns loss (), logits, image features (B, D) and labels (B,).

        If the device runs out of memory, activations are recomputed from here on, which changes no gradient.
        """
        try:
            return self._gradients(member)
        except torch.OutOfMemoryError:
            if self.passes.saves_memory:
                raise
        print("out of memory on the device: activations are recomputed from now on", file=sys.stderr)
        self.passes.save_memory()
        return self._gradients(member)

    def _gradients(self, member: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        images, teacher, labels = self._batch()
        for parameter in self.parameters.values():
            parameter.grad = None
        loss, logits = self.objective.backward(images, teacher, labels, iteration=member)
        return loss, logits, images.detach(), labels

    def _keep_snapshot(self) -> None:
        """Copy the averaged weights to memory if params ask for a snapshot of this iteration."""
        params = self.method.snapshots
        if params is not None and (self.iteration % params.every == 0 or self.iteration == self.iterations):
            averages = self._averages()
            stored = {name: averages.get(name, p.detach()) for name, p in self.student.stored().items()}
            self.snapshots[self.iteration] = {name: weights.cpu().clone() for name, weights in stored.items()}

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
        """Image features (B, D) of student and teacher, and labels (B,), of this iteration's batch."""
        needs_teacher = needs_teacher_images(self.method.loss)
        if self._keeps_images():
            positions = torch.from_numpy(self._positions(self.iteration))
            labels = torch.from_numpy(self.source.labels)[positions]
            images, teacher = self.passes.images(None, positions=positions, teacher=needs_teacher)
        else:
            future = self._ahead.pop(self.iteration, None) or self._load_batch(self.iteration)
            if self.iteration + 1 < self.iterations:
                self._ahead[self.iteration + 1] = self._load_batch(self.iteration + 1)
            pixels, labels = future.result()
            images, teacher = self.passes.images(pixels, teacher=needs_teacher)
        return images, teacher, labels.to(self.encoder.device)

    def _positions(self, iteration: int) -> np.ndarray:
        size = self.method.batch_size or self.shared.batch_size
        positions = wrapped_positions if self.shared.batches == "wrapped" else batch_positions
        return positions(self.source.labels, batch_size=size, seed=self.seed, iteration=iteration)

    def _load_batch(self, iteration: int) -> Future[tuple[Tensor, Tensor]]:
        """Load a batch in the background."""
        return self._thread.submit(
            lambda: self.images.batch(self._positions(iteration), seed=self.seed, iteration=iteration)
        )

    def _keeps_images(self) -> bool:
        """Whether image features never change, so that they are computed once."""
        return self.passes.trunk_is_fixed and self.shared.augment is None

    def _keep_images(self) -> None:
        n = len(self.source.labels)
        groups = np.split(np.arange(n), range(IMAGES_PER_PASS, n, IMAGES_PER_PASS))
        self.passes.keep_images([self.images.batch(group, seed=self.seed, iteration=0)[0] for group in groups])

    def _log_row(self, loss: Tensor, *, logits: Tensor, images: Tensor, labels: Tensor) -> None:
        """Append to the log, with the divergence of the members' current predictions."""
        columns = torch.arange(len(labels), device=labels.device) if self.objective.in_batch else labels
        with torch.no_grad():
            scores = [self.shared.logit_scale * images @ self.passes.texts(i).T for i in range(self.passes.members)]
            divergence = losses.members_divergence(torch.stack(scores).softmax(dim=-1))
        self.log.append(
            {
                "iteration": self.iteration,
                "loss": float(loss),
                "n_correct": int((logits.argmax(dim=1) == columns).sum()),
                "n_images": len(labels),
                "members_kl": divergence,
            }
        )

    # -------------------------------------------------------------------------------------------------- resume

    def save(self, path: Path) -> None:
        """Write weights, averages, momentum, loss scale, log and iteration; batches follow from the iteration."""
        buffers = self.optimizer.momentum_buffers
        groups: dict[str, Mapping[str, Tensor]] = {
            "weight": {name: p.detach() for name, p in self.parameters.items()},
            "average": self.average,
            "momentum": {name: buffers[p] for name, p in self.parameters.items() if p in buffers},
            "finished": {} if self.ensemble is None else {"": self.ensemble.finished},
            "piled": self._piled(),
            **{f"snapshot/{iteration}": copies for iteration, copies in self.snapshots.items()},
        }
        tensors = {f"{group}/{name}": t for group, named in groups.items() for name, t in named.items()}
        state = {"iteration": self.iteration, "log": self.log, "scaler": self.scaler.state_dict()}
        tensors["state"] = torch.frombuffer(bytearray(json.dumps(state).encode()), dtype=torch.uint8)
        write_checked(path, safetensors.torch.save({k: v.cpu().contiguous() for k, v in tensors.items()}))

    def load(self, path: Path) -> None:
        """Read what `save` wrote; MismatchError if it is damaged."""
        tensors, device = safetensors.torch.load(read_checked(path)), self.encoder.device
        state, groups = json.loads(tensors.pop("state").numpy().tobytes()), defaultdict[str, dict[str, Tensor]](dict)
        for key, tensor in tensors.items():
            group, _, name = key.rpartition("/")
            groups[group][name] = tensor
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(groups["weight"][name])
                self.average[name] = groups["average"][name].to(device)
        if self.ensemble is not None:
            self.ensemble.finished = groups["finished"][""].to(device)
        for name, piled in self._piled().items():
            piled.copy_(groups["piled"][name])
        for name, buffer in groups["momentum"].items():
            self.optimizer.momentum_buffers[self.parameters[name]] = buffer.to(device)
        copies = {int(group.partition("/")[2]): groups[group] for group in groups if group.startswith("snapshot/")}
        self.snapshots = dict(sorted(copies.items()))  # safetensors keeps no order
        self.iteration, self.log = state["iteration"], state["log"]
        self.scaler.load_state_dict(state["scaler"])
