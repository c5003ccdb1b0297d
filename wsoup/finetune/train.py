"""The training loop: steps of the optimizer, an average of the weights, a log, and a state to resume from.

As in section 4 of arXiv 2311.13612 SGD has a constant learning rate and the exponential moving average of the weights
is evaluated; a method may have another optimizer, schedule or average. Iteration t uses the texts of member t mod M of
the soup. A method may have a second stage, which trains class weights alone (2SFS). A killed training resumes to the
same weights.
"""

import sys
import time
from pathlib import Path

import torch
from torch import Tensor

from wsoup.base.errors import MismatchError, ParamsError
from wsoup.core.draws import named_seed
from wsoup.finetune.averages import AveragedWeights, gaussian_shares, steady_share
from wsoup.finetune.blocks import LowRank
from wsoup.finetune.loading import Batches
from wsoup.finetune.loss_params import ProdaLoss
from wsoup.finetune.losses import members_divergence
from wsoup.finetune.objective import Objective
from wsoup.finetune.optimizer import STEPS, make_optimizer
from wsoup.finetune.params import FinetuneParams, MethodParams
from wsoup.finetune.passes import CLASS_WEIGHTS, Passes
from wsoup.finetune.resume import read_state, write_state
from wsoup.finetune.schedule import rate_factor
from wsoup.finetune.student import Student
from wsoup.finetune.training_set import TrainingSet
from wsoup.finetune.tune_params import SoftDescriptorsTune
from wsoup.finetune.tuners import make_student
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
        self.encoder = encoder
        self.source = source
        self.method = method
        self.shared = shared
        self.seed = seed
        self.iterations = method.iterations or shared.iterations
        self.student = _student(encoder, source=source, method=method, seed=seed)
        self.parameters = self.student.trained()
        # Soft descriptors with cross entropy are a CoOp ensemble, each trained on its own; ProDA trains all together.
        trains_in_turn = isinstance(method.tune, SoftDescriptorsTune) and not isinstance(method.loss, ProdaLoss)
        share = steady_share(ema=shared.ema if method.ema is None else method.ema)
        if method.average is not None:
            share = gaussian_shares(**method.average.model_dump(), iterations=self.iterations)
        # Rounded down, as 2SFS's code does.
        self.first_stage = int(self.iterations * method.tune.share_of_towers)
        self.weights = AveragedWeights(
            self.parameters,
            share=share,
            iterations=self.iterations,
            ensemble=trains_in_turn,
            first_stage=self.first_stage,
        )
        self.optimizer = make_optimizer(self.parameters, method=method, shared=shared)
        self.rate_factor = rate_factor(method.schedule, learning_rate=method.learning_rate)
        self.scaler = torch.amp.GradScaler(encoder.device.type, enabled=torch.float16 in (encoder.dtype, encoder.pure))
        self.batches = Batches(source, encoder=encoder, method=method, shared=shared, seed=seed)
        self.passes = Passes(
            encoder,
            student=self.student,
            class_names=source.class_names,
            template=source.template,
            soup=source.soup[: method.members],
        )
        self.logit_scale = method.logit_scale or shared.logit_scale
        self.objective = Objective(
            self.passes,
            loss=method.loss,
            logit_scale=self.logit_scale,
            parameters=list(self.parameters.values()),
            scaler=self.scaler,
        )
        self.iteration = 0
        self._not_finite = torch.full((), -1, device=encoder.device)  # first iteration with such a loss, or -1
        self.log: list[dict[str, float]] = []
        self.snapshots: dict[int, dict[str, Tensor]] = {}
        self._keep_snapshot()

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
                # A state that is not finite would be resumed from again and again.
                self._check_losses()
                self.save(resume)
                saved = time.monotonic()
        self._check_losses()
        self._take_averages()
        return self.student.requires_grad_(False)

    @torch.no_grad()
    def _take_averages(self) -> None:
        """Give the student the averaged weights, and no update that piled up on the way."""
        for name, average in self.weights.averages(self.iteration).items():
            if not bool(average.isfinite().all()):
                raise self._diverged(f"weights {name!r} are", iteration=self.iteration)
            self.parameters[name].copy_(average)
        for piled in self._piled().values():
            piled.zero_()

    def _piled(self) -> dict[str, Tensor]:
        """Sums of the low-rank updates that pile up."""
        return {name: buffer for name, buffer in self.student.named_buffers() if name.endswith(".piled")}

    def step(self) -> None:
        """One iteration: batch, loss, update, average, perhaps a row of the log."""
        if self.weights.is_next_descriptor(self.iteration):
            self.weights.begin_descriptor(self.iteration)
            # Each descriptor begins without the momentum of the one before.
            self.optimizer.forget()
        if self.iteration == self.first_stage:
            self._begin_second_stage()
        loss, logits, images, labels = self._with_gradients(self.weights.text_index(self.iteration))
        # Checked later, because that waits for the GPU.
        is_first = (self._not_finite < 0) & ~loss.isfinite()
        self._not_finite = torch.where(is_first, self.iteration + 1, self._not_finite)
        if self.iteration == 0:
            self._log_row(loss, logits=logits, images=images, labels=labels)
        # Before the step: the authors add the update that this pass used.
        for module in self.student.modules():
            if isinstance(module, LowRank):
                module.pile_up()
        self.optimizer.rate_factor = self.rate_factor(*self.weights.turn(self.iteration))
        self.scaler.step(self.optimizer)  # type: ignore[arg-type]  # of an optimizer it wants no more than ours has
        self.scaler.update()
        self.weights.update(self.iteration)
        self.batches.forget(self.iteration)
        self.iteration += 1
        if self.iteration % self.shared.log_every == 0 or self.iteration == self.iterations:
            self._check_losses()
            self._log_row(loss, logits=logits, images=images, labels=labels)
        self._keep_snapshot()

    def _begin_second_stage(self) -> None:
        """Keep what the first stage would have handed out, and train class weights from its texts on."""
        self.weights.settle()
        self.passes.begin_class_weights()
        self.weights.restart(CLASS_WEIGHTS)
        self.optimizer.forget()

    def _with_gradients(self, text_index: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Compute gradients; returns loss (), logits, image features (B, D) and labels (B,).

        If the device runs out of memory, activations are recomputed from here on, which changes no gradient.
        """
        try:
            return self._gradients(text_index)
        except torch.OutOfMemoryError:
            if self.passes.text_tower.save_memory:
                raise
        print("out of memory on the device: activations are recomputed from now on", file=sys.stderr)
        self.passes.save_memory()
        return self._gradients(text_index)

    def _gradients(self, text_index: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        pixels, labels = self.batches.take(self.iteration, of=self.iterations)
        on_device = pixels.to(self.encoder.device, non_blocking=True)
        normalized = self.batches.images.normalized(on_device)
        images, teacher = self.passes.images(normalized, teacher=self.objective.needs_teacher)
        for parameter in self.parameters.values():
            parameter.grad = None
        loss, logits = self.objective.backward(images, teacher, labels, text_index=text_index)
        return loss, logits, images.detach(), labels

    def _keep_snapshot(self) -> None:
        """Copy the averaged weights to memory if params ask for a snapshot of this iteration."""
        params = self.method.snapshots
        if params is None:
            return
        if self.iteration % params.every == 0 or self.iteration == self.iterations:
            averages = self.weights.averages(self.iteration)
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

    def _log_row(self, loss: Tensor, *, logits: Tensor, images: Tensor, labels: Tensor) -> None:
        """Append to the log, with the divergence of the members' current predictions."""
        columns = labels
        if self.objective.in_batch:
            columns = torch.arange(len(labels))
        right = logits.argmax(dim=1).cpu() == columns
        scores = []
        with torch.no_grad():
            for member in range(self.passes.members):
                texts = self.passes.texts(member)
                scores.append(self.logit_scale * images @ texts.T)
            divergence = members_divergence(torch.stack(scores).softmax(dim=-1))
        row = {
            "iteration": self.iteration,
            "loss": float(loss),
            "n_correct": int(right.sum()),
            "n_images": len(labels),
            "members_kl": divergence,
        }
        self.log.append(row)

    def _state(self) -> dict[str, Tensor]:
        """The tensors that change in training, by kind and name, besides snapshots and what the optimizer keeps."""
        piled = {f"piled/{name}": buffer for name, buffer in self._piled().items()}
        return self.weights.state() | piled

    def save(self, path: Path) -> None:
        """Write weights, averages, the optimizer's state, loss scale, log and iteration, from which batches follow."""
        tensors = self._state()
        for kind, of_parameters in self.optimizer.kept.items():
            for name, parameter in self.parameters.items():
                if parameter in of_parameters:
                    tensors[f"{kind}/{name}"] = of_parameters[parameter]
        for iteration, copies in self.snapshots.items():
            tensors |= {f"snapshot/{iteration}/{name}": weights for name, weights in copies.items()}
        values = {"iteration": self.iteration, "log": self.log, "scaler": self.scaler.state_dict()}
        write_state(path, tensors=tensors, values=values)

    def load(self, path: Path) -> None:
        """Read what `save` wrote; MismatchError if it is damaged."""
        tensors, values = read_state(path)
        live = self._state()
        for key, tensor in tensors.items():
            kind, _, name = key.partition("/")
            if key in live:
                live[key].copy_(tensor)
            elif kind in self.optimizer.kept:
                device = tensor.device if kind == STEPS else self.encoder.device
                self.optimizer.kept[kind][self.parameters[name]] = tensor.to(device)
            else:
                iteration, _, weight = name.partition("/")
                self.snapshots.setdefault(int(iteration), {})[weight] = tensor
        self.iteration = values["iteration"]
        self.log = values["log"]
        self.scaler.load_state_dict(values["scaler"])
        # At its first iteration, too, the second stage is still to begin.
        if self.iteration > self.first_stage:
            self.passes.train_class_weights()


def _student(encoder: Encoder, *, source: TrainingSet, method: MethodParams, seed: int) -> Student:
    """A student at its initial values."""
    return make_student(
        encoder.model,
        tokenizer=encoder.tokenizer,
        tune=method.tune,
        template=source.template,
        generator=torch.Generator().manual_seed(named_seed(seed, "start")),
        words=source.words,
        soup=source.soup,
        class_names=source.class_names,
    )
