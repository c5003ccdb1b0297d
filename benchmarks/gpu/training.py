"""Training steps beside the plain way, which encodes every text at the full context and runs a separate teacher."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.gpu.bench import TEMPLATE, Bench, check_places
from wsoup.core import prompts
from wsoup.finetune import losses
from wsoup.finetune.loss_params import CrossEntropyLoss
from wsoup.finetune.objective import Objective
from wsoup.finetune.passes import Passes
from wsoup.finetune.student import Student
from wsoup.finetune.tune_params import LastBlocksTune, PromptTune, TuneParams
from wsoup.finetune.tuners import make_student
from wsoup.towers.encoder import Encoder

SOUP = ("which has a long tail", "original image scale pick", "close detail seen", "natural light shown here")
LOSS = CrossEntropyLoss.model_validate({"kind": "cross_entropy", "lambda": 0.25, "teacher_logit_scale": 10})
LOGIT_SCALE = 60.0
CASES: dict[str, TuneParams] = {
    "last blocks + diversity": LastBlocksTune(kind="last_blocks", blocks=3, prompt_tokens=3),
    "prompt + diversity": PromptTune(kind="prompt", tokens=3),
}


class Step:
    """One training step of a case, ours and the plain way, on the same pixels and labels."""

    def __init__(self, bench: Bench, encoder: Encoder, tune: TuneParams, *, count: int) -> None:
        size, self.encoder = bench.size, encoder
        self.names = bench.class_names(size.train_classes)
        draw = torch.Generator().manual_seed(0)
        self.pixels = bench.pixels(count)
        self.labels = torch.randperm(size.train_classes, generator=draw)[:count].to(bench.device)
        blocks = len(encoder.model.visual.transformer.resblocks)  # type: ignore[union-attr,arg-type]
        if isinstance(tune, LastBlocksTune):
            tune = tune.model_copy(update={"blocks": min(tune.blocks, blocks - 1)})
        self.ours, self.plainly = (self._student(tune) for _ in range(2))
        self.teacher: Any = copy.deepcopy(encoder.model)
        self.passes = Passes(encoder, student=self.ours, class_names=self.names, template=TEMPLATE, soup=SOUP)
        for member in range(len(SOUP)):
            self.passes.teacher_texts(member)  # once per training, not per step
        scaler = torch.amp.GradScaler(encoder.device.type, enabled=False)
        parameters = list(self.ours.trained().values())
        self.objective = Objective(
            self.passes, loss=LOSS, logit_scale=LOGIT_SCALE, parameters=parameters, scaler=scaler
        )
        self.tokens = [
            encoder.tokenizer([s + prompts.ending(text, period=True) for s in prompts.stems(TEMPLATE, self.names)])
            for text in SOUP
        ]

    def _student(self, tune: TuneParams) -> Student:
        tokenizer, draw = self.encoder.tokenizer, torch.Generator().manual_seed(0)
        return make_student(self.encoder.model, tokenizer=tokenizer, tune=tune, template=TEMPLATE, generator=draw)

    def our_way(self, member: int = 0) -> None:
        check_places(self.encoder.device, pixels=self.pixels, labels=self.labels)
        self.ours.zero_grad(set_to_none=True)
        features, frozen = self.passes.images(self.pixels, teacher=True)
        self.objective.backward(features, frozen, self.labels, text_index=member)

    def plain_way(self, member: int = 0) -> None:
        """All texts at the full context, image and text through the whole student, and a separate teacher."""
        self.plainly.zero_grad(set_to_none=True)
        pixels, tokens = self.pixels, self.tokens[member].to(self.encoder.device)
        with self.encoder.autocast():
            with torch.no_grad():
                old = F.normalize(self.teacher.encode_image(pixels).float(), dim=-1)
                taught = (10.0 * old @ F.normalize(self.teacher.encode_text(tokens).float(), dim=-1).T).softmax(dim=-1)
            features = F.normalize(self.plainly.model.encode_image(pixels).float(), dim=-1)
            net, prompt = self.plainly.text_tower, self.plainly.soft_prompt
            assert prompt is not None
            x = net.token_embedding(tokens)
            x = torch.cat([x[:, :1], prompt.expand(len(x), -1, -1), x[:, 1 + len(prompt) :]], dim=1)
            x = net.transformer(x + net.positional_embedding, attn_mask=net.attn_mask)
            x = net.ln_final(x)[torch.arange(len(x)), tokens.argmax(dim=-1)] @ net.text_projection
        logits = LOGIT_SCALE * features @ F.normalize(x.float(), dim=-1).T
        onehot = F.one_hot(self.labels, len(tokens)).float()
        losses.cross_entropy(logits, 0.75 * onehot + 0.25 * taught).backward()

    def difference(self) -> float:
        """Largest relative difference of a gradient after a step of each way."""
        pairs = zip(self.ours.trained().values(), self.plainly.trained().values(), strict=True)
        return max(float((a.grad - b.grad).norm() / b.grad.norm().clamp(min=1e-30)) for a, b in pairs)  # type: ignore


def training(bench: Bench) -> list[str]:
    """Time of a step for the paper's two kinds of method."""
    lines = [
        "| training step | | ours | plain | ratio | peak GiB | plain's | gradients differ by |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for case, tune in CASES.items():
        for precision in bench.precisions:
            with bench.at(precision) as encoder:
                step = Step(bench, encoder, tune, count=bench.size.train_images)
                ours, peak = bench.seconds(step.our_way, repeats=5), bench.peak()
                bench.forget()
                plain = bench.seconds(step.plain_way, repeats=2)
                lines.append(
                    f"| {case} | {precision} | {1000 * ours:.0f} ms | {1000 * plain:.0f} ms | {plain / ours:.1f} x "
                    f"| {peak} | {bench.peak()} | {step.difference():.0e} |"
                )
                del step
    return lines
