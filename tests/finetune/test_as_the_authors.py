"""Training as in the authors' code where it differs from the papers, against plain loops in torch."""

from __future__ import annotations

import copy

import pytest
import torch
from finetune_cases import finetune_params
from torch.nn import functional as F

from wsoup.core import prompts
from wsoup.finetune.train import Trainer

EMA = 0.7


def trainer(encoder, source, name: str, *, iterations: int) -> Trainer:
    shared = finetune_params(iterations=iterations, ema=EMA)
    return Trainer(encoder, source=source, method=shared.methods[name], shared=shared, seed=1)


def encoded(net, embeddings: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Features of embedded texts (B, context, width) at the full context, through the model's own modules."""
    x = net.transformer(embeddings + net.positional_embedding, attn_mask=net.attn_mask)
    return F.normalize(net.ln_final(x)[torch.arange(len(x)), ends] @ net.text_projection, dim=-1)


def proda_loss(images: torch.Tensor, texts: torch.Tensor, *, scale: float) -> torch.Tensor:
    """The authors' `proda_loss`, image by image: (B, D), (B, S, D) -> ()."""
    mean, total = texts.mean(dim=1), torch.zeros(())
    away = texts - mean[:, None]
    for i, image in enumerate(images):
        logits = []
        for k in range(len(texts)):
            covariance = {pair: (away[pair[0]] * away[pair[1]]).sum(dim=0) for pair in ((i, i), (k, k), (i, k))}
            spread = (covariance[i, i] + covariance[k, k] - 2 * covariance[i, k]) / (texts.shape[1] + 1)
            logits.append(scale * image @ F.normalize(mean[k], dim=0) + scale**2 / 2 * (image**2 * spread).sum())
        total = total - torch.stack(logits).log_softmax(dim=0)[i] / len(images)
    prompt = F.normalize(away.mean(dim=0), dim=-1)
    cosines = prompt @ prompt.T
    return total + 0.1 * cosines[~torch.eye(len(cosines), dtype=torch.bool)].abs().mean()


def test_prodas_descriptors_share_one_momentum_buffer(tiny_encoder, colours):
    """Four descriptors, two per step, twelve steps: all of them move in every step, by momentum."""
    ours = trainer(tiny_encoder, colours, "proda", iterations=12)
    net, names, template = copy.deepcopy(tiny_encoder.model), colours.class_names, colours.template
    tokens = tiny_encoder.tokenizer([stem + "." for stem in prompts.stems(template, names)])
    period = int((tokens[0] == tokens[0].max()).nonzero()[0]) - 1  # class names are one token each
    context = torch.nn.Parameter(ours.student.soft_prompt.detach().clone())
    descriptors = torch.nn.Parameter(ours.student.soft_descriptors.detach().clone())
    optimizer = torch.optim.SGD([context, descriptors], lr=0.1, momentum=0.9, weight_decay=1e-5)
    averages = [context.detach().clone(), descriptors.detach().clone()]
    comma = net.token_embedding.weight[ours.student.comma].detach()
    for step in range(12):
        pixels, labels = ours.batches.load(step)
        images = F.normalize(net.encode_image(ours.batches.images.normalized(pixels)), dim=-1)
        texts = []
        for member in ((2 * step) % 4, (2 * step) % 4 + 1):
            x = net.token_embedding(tokens[labels]).detach()
            x[:, 1:4], x[:, period] = context, comma
            x[:, period + 1 : period + 6] = descriptors[member]
            x[:, period + 6] = net.token_embedding.weight[tokens.max()]
            texts.append(encoded(net, x, torch.full((len(x),), period + 6)))
        optimizer.zero_grad()
        proda_loss(images, torch.stack(texts, dim=1), scale=60).backward()
        before = descriptors.detach().clone()
        optimizer.step()
        if step == 1:
            assert (descriptors.detach() - before)[:2].abs().max() > 1e-4  # trained in the previous step
        averages = [EMA * old + (1 - EMA) * p.detach() for old, p in zip(averages, (context, descriptors), strict=True)]
    student = ours.run()
    torch.testing.assert_close(student.soft_prompt.detach(), averages[0], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(student.soft_descriptors.detach(), averages[1], rtol=1e-3, atol=1e-4)


def test_low_rank_updates_pile_up_in_training_and_the_final_average_is_added_once(tiny_encoder, colours):
    """After three passes the weights include three updates; the final model has only the average."""
    run = trainer(tiny_encoder, colours, "lora_image", iterations=4)
    attention = run.student.image_blocks[-1].attn
    update = attention.parametrizations.in_proj_weight[0]
    plain, total = attention.parametrizations.in_proj_weight.original.clone(), torch.zeros(2, *update.piled.shape[1:])
    for _ in range(3):
        total += 0.2 * (update.up @ update.down).detach()
        run.step()
    assert total.abs().max() > 1e-7
    torch.testing.assert_close(update.piled, total, rtol=1e-4, atol=1e-9)
    run.run()
    assert not update.piled.any()
    rows = torch.cat([0.2 * update.up[0] @ update.down[0], torch.zeros(len(plain) // 3, plain.shape[1])])
    torch.testing.assert_close(attention.in_proj_weight[: len(rows)], plain[: len(rows)] + rows)


@pytest.mark.parametrize("name", ["coop_ensemble", "coop_ensemble_open"])
def test_each_descriptor_of_an_ensemble_is_trained_from_scratch(tiny_encoder, colours, name):
    """The second one ends as if it had been trained alone; towers trained with it are restored."""
    whole, second = (trainer(tiny_encoder, colours, name, iterations=6) for _ in range(2))
    start = second.student.soft_descriptors.detach().clone()
    second.iteration = 3
    ended = second.run().soft_descriptors
    both = whole.run()
    assert torch.equal(both.soft_descriptors[1], ended[1])
    assert torch.equal(ended[0], start[0])
    assert not torch.equal(both.soft_descriptors[0], start[0])
    assert torch.equal(both.model.text_projection, tiny_encoder.model.text_projection)
    assert torch.equal(both.visual.proj, tiny_encoder.model.visual.proj)
