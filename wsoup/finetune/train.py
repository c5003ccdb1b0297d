"""The training loop: SGD with momentum, an average of the weights, a log, and a resume state.

As in section 4 of arXiv 2311.13612 the learning rate is constant and the exponential moving average of the weights is
evaluated. Iteration t uses the texts of member t mod M of the soup. A killed training resumes to the same weights.
"""

import json
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from wsoup.base.errors import MismatchError, ParamsError
from wsoup.core.draws import named_seed
from wsoup.disk.store import read_checked, write_checked
from wsoup.finetune import losses
from wsoup.finetune.blocks import LowRank
from wsoup.finetune.data import FewShotImages, TrainingSet, batch_positions, wrapped_positions
from wsoup.finetune.losses import Objective
from wsoup.finetune.params import FinetuneParams, MethodParams, ProdaLoss, SoftDescriptorsTune
from wsoup.finetune.passes import Passes
from wsoup.finetune.student import Student
from wsoup.finetune.tuners import make_optimizer, make_student
from wsoup.runtime.work import SAVE_SECONDS, tick
from wsoup.towers.encoder import Encoder

SOFT = "soft_descriptors"


class Trainer:
    """One method with one seed.

    With cross entropy, soft descriptors are a CoOp ensemble. The authors train every descriptor in a run of its own
    (Chris210634/word_soups, train_soft_descriptors.py) and keep nothing else of that run; here the runs are consecutive
    parts of one training.

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
            words=source.words,
        )
        self.parameters = self.student.trained()
        self.start = {name: p.detach().clone() for name, p in self.parameters.items()}
        self.average = {name: p.clone() for name, p in self.start.items()}
        ensemble = isinstance(method.tune, SoftDescriptorsTune) and not isinstance(method.loss, ProdaLoss)
        self.finished = self.start[SOFT].clone() if ensemble else None  # those not yet trained at their initial values
        self.optimizer = make_optimizer(self.parameters, method=method, shared=shared)
        self.scaler = torch.amp.GradScaler(encoder.device.type, enabled=encoder.dtype == torch.float16)
        self.images = FewShotImages(source, encoder=encoder, augment=shared.augment)
        self.passes = Passes(
            encoder,
            student=self.student,
            class_names=source.class_names,
            template=source.template,
            soup=source.soup[: method.members],
        )
        self.objective = Objective(
            self.passes,
            loss=method.loss,
            logit_scale=shared.logit_scale,
            parameters=list(self.parameters.values()),
            scaler=self.scaler,
        )
        self.iteration = 0
        self._not_finite = torch.full((), -1, device=encoder.device)  # first iteration with such a loss, or -1
        self.log: list[dict[str, float]] = []
        self.snapshots: dict[int, dict[str, Tensor]] = {}
        self._keep_snapshot()
        self._ahead: dict[int, Future[tuple[Tensor, Tensor]]] = {}
        self._thread = ThreadPoolExecutor(max_workers=1)

    def run(self, *, resume: Path | None = None, save_seconds: float = SAVE_SECONDS) -> Student:
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
        if self.finished is None:
            return self.average
        member = self._member(max(self.iteration - 1, 0))
        descriptors = self.finished.clone()
        descriptors[member] = self.average[SOFT][member]
        return {**self.start, SOFT: descriptors}

    def _member(self, iteration: int) -> int:
        """What an iteration trains: one member of an ensemble after the other, or all in turn."""
        return iteration if self.finished is None else iteration * len(self.finished) // self.iterations

    def _start_next_member(self) -> None:
        """Keep the descriptor trained last, and reset weights and averages to their initial values."""
        self.finished = self._averages()[SOFT]
        for name, parameter in self.parameters.items():
            parameter.detach().copy_(self.start[name])
            self.average[name].copy_(self.start[name])
        self.optimizer.state.clear()

    def _piled(self) -> dict[str, Tensor]:
        """Sums of the low-rank updates that pile up."""
        return {name: buffer for name, buffer in self.student.named_buffers() if name.endswith(".piled")}

    def step(self) -> None:
        """One iteration: batch, loss, update, average, perhaps a row of the log."""
        member = self._member(self.iteration)
        if self.finished is not None and self.iteration and member != self._member(self.iteration - 1):
            self._start_next_member()
        loss, logits, images, labels = self._with_gradients(member)
        # Checked later, because that waits for the GPU.
        first = (self._not_finite < 0) & ~loss.isfinite()
        self._not_finite = torch.where(first, self.iteration + 1, self._not_finite)
        if self.iteration == 0:
            self._log_row(loss, logits=logits, images=images, labels=labels)
        for module in self.student.modules():
            if isinstance(module, LowRank):
                module.pile_up()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        weights = [self.parameters[name].detach() for name in self.average]
        torch._foreach_lerp_(list(self.average.values()), weights, 1 - self.shared.ema)
        self._ahead.pop(self.iteration)
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
            if self.passes.text_tower.save_memory:
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
        for iteration in range(self.iteration, min(self.iteration + 2, self.iterations)):
            if iteration not in self._ahead:
                self._ahead[iteration] = self._thread.submit(self._load_batch, iteration)
        pixels, labels = self._ahead[self.iteration].result()
        return *self.passes.images(pixels, teacher=self.objective.needs_teacher), labels

    def _load_batch(self, iteration: int) -> tuple[Tensor, Tensor]:
        """Pixels (B, 3, H, W) and labels (B,)."""
        size = self.method.batch_size or self.shared.batch_size
        draw = wrapped_positions if self.shared.batches == "wrapped" else batch_positions
        positions = draw(self.source.labels, batch_size=size, seed=self.seed, iteration=iteration)
        return self.images.batch(positions, seed=self.seed, iteration=iteration)

    def _log_row(self, loss: Tensor, *, logits: Tensor, images: Tensor, labels: Tensor) -> None:
        """Append to the log, with the divergence of the members' current predictions."""
        columns = torch.arange(len(labels)) if self.objective.in_batch else labels
        with torch.no_grad():
            scores = [self.shared.logit_scale * images @ self.passes.texts(i).T for i in range(self.passes.members)]
            divergence = losses.members_divergence(torch.stack(scores).softmax(dim=-1))
        self.log.append(
            {
                "iteration": self.iteration,
                "loss": float(loss),
                "n_correct": int((logits.argmax(dim=1).cpu() == columns).sum()),
                "n_images": len(labels),
                "members_kl": divergence,
            }
        )

    def _state(self) -> dict[str, Tensor]:
        """The tensors that change in training, by kind and name."""
        groups: dict[str, Mapping[str, Tensor]] = {
            "weight": {name: p.detach() for name, p in self.parameters.items()},
            "average": self.average,
            "finished": {} if self.finished is None else {"": self.finished},
            "piled": self._piled(),
        }
        return {f"{group}/{name}": tensor for group, named in groups.items() for name, tensor in named.items()}

    def save(self, path: Path) -> None:
        """Write weights, averages, momentum, loss scale, log and iteration; batches follow from the iteration."""
        buffers = {name: self.optimizer.state.get(p, {}) for name, p in self.parameters.items()}
        tensors = self._state()
        tensors |= {f"momentum/{name}": state["momentum_buffer"] for name, state in buffers.items() if state}
        for iteration, copies in self.snapshots.items():
            tensors |= {f"snapshot/{iteration}/{name}": weights for name, weights in copies.items()}
        state = {"iteration": self.iteration, "log": self.log, "scaler": self.scaler.state_dict()}
        tensors["state"] = torch.frombuffer(bytearray(json.dumps(state).encode()), dtype=torch.uint8)
        write_checked(path, safetensors.torch.save({k: v.cpu().contiguous() for k, v in tensors.items()}))

    def load(self, path: Path) -> None:
        """Read what `save` wrote; MismatchError if it is damaged."""
        tensors = safetensors.torch.load(read_checked(path))
        state, live = json.loads(tensors.pop("state").numpy().tobytes()), self._state()
        for key, tensor in tensors.items():
            kind, *iteration, name = key.split("/")
            if key in live:
                live[key].copy_(tensor)
            elif kind == "momentum":
                self.optimizer.state[self.parameters[name]]["momentum_buffer"] = tensor.to(self.encoder.device)
            else:
                self.snapshots.setdefault(int(iteration[0]), {})[name] = tensor
        self.iteration, self.log = state["iteration"], state["log"]
        self.scaler.load_state_dict(state["scaler"])
