"""One word chain (Algorithm 2), beside the one-by-one loop with `encode_text` at the full context."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.bench.common import Clock, Result, about, encode_plainly, setup
from wsoup.core.errors import ParamsError
from wsoup.core.scoring import NEAR_TIE, correct_per_candidate
from wsoup.search.grow.chains import word_chain
from wsoup.soup.member import Member, Step
from wsoup.texts.encoder import PromptEncoder

SHOTS = 16


def bench_search(
    name: str,
    *,
    words: Sequence[str],
    classes: int,
    patience: int,
    device: torch.device,
    dtype: torch.dtype | None = None,
) -> Result:
    """Time one word chain (Algorithm 2), and show on a small problem that the plain loop finds the same.

    That is claimed in float32 alone: in other types the two ways round differently, and their chains may part.

    The plain loop at 77 tokens takes hours at full size, so its cost is the candidates that it tries times the time of
    `encode_text` on samples of them, taken between the batches of ours; counting images is added alike to both.

    Args:
        name, classes, device, dtype: as `bench_text`.
        words: the first word and then `patience` candidates at least.
        patience: candidates tried.
    """
    if len(words) <= patience:
        raise ParamsError(f"bench search needs {patience + 1} words for patience {patience}, got {len(words)}")
    model, encoder, prefixes = setup(name, classes=classes, device=device, dtype=dtype)
    images, labels = _images_near_texts(encoder, prefixes, per_class=SHOTS)
    encode_s = count_s = 0.0
    counted, plain = 0, []

    def count(texts: Sequence[str]) -> Tensor:
        nonlocal encode_s, count_s, counted
        suffixes = [f" {text}" for text in texts]
        clock = Clock(device)
        features = encoder.encode_grid(prefixes, suffixes)
        encode_s += clock.lap()
        found = correct_per_candidate(images, labels, features).sum(dim=1).cpu()
        count_s, counted = count_s + clock.lap(), counted + len(texts)
        sample = [prefixes[i * len(prefixes) // 8] + suffixes[i % len(suffixes)] for i in range(8)]
        clock.lap()
        encode_plainly(model, encoder, sample)
        plain.append(clock.lap() / len(sample))
        return found

    chain = word_chain(words[0], candidates=words[1 : 1 + patience], count=count, max_words=patience + 1)
    per_candidate = classes * statistics.median(plain) + count_s / counted
    result: Result = {
        "patience": patience,
        "accepted": len(chain.trace) - 1,
        "candidates_encoded": counted,
        "ours_s": encode_s + count_s,
        "counting_s": count_s,
        "plain_s": (1 + patience) * per_candidate,
        "ratio": (1 + patience) * per_candidate / (encode_s + count_s),
    }
    if encoder.dtype is None:
        result |= _same_chain(model, encoder, prefixes[:: max(1, classes // 12)][:12], words[: 1 + min(patience, 40)])
    return {"bench": "search", **about(name, classes=classes, device=device, encoder=encoder), "rows": [result]}


def _images_near_texts(encoder: PromptEncoder, prefixes: list[str], *, per_class: int) -> tuple[Tensor, Tensor]:
    """Image features scattered around the class prompts, so that about half are right, and their labels."""
    texts = encoder.encode_grid(prefixes, [""])[0]
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(len(prefixes)).repeat_interleave(per_class).to(texts.device)
    spread = (texts - texts.mean(dim=0)).norm(dim=1).mean()
    noise = torch.randn(len(labels), texts.shape[1], generator=generator).to(texts.device)
    return F.normalize(texts[labels] + 0.3 * spread * noise, dim=-1), labels


def _same_chain(model: nn.Module, encoder: PromptEncoder, prefixes: list[str], words: Sequence[str]) -> Result:
    """The chain of a small problem, found by both ways: whether it is the same, to the letter and to the count."""
    images, labels = _images_near_texts(encoder, prefixes, per_class=SHOTS)
    near_ties = 0

    def fast(texts: Sequence[str]) -> Tensor:
        features = encoder.encode_grid(prefixes, [f" {text}" for text in texts])
        return correct_per_candidate(images, labels, features).sum(dim=1).cpu()

    def plain(text: str) -> int:
        nonlocal near_ties
        scores = images @ encode_plainly(model, encoder, [f"{prefix} {text}" for prefix in prefixes]).T
        best = scores.topk(min(2, len(prefixes)), dim=1).values
        near_ties += int((best[:, 0] - best[:, -1] < NEAR_TIE).sum())
        return int((scores.argmax(dim=1) == labels).sum())

    chain = words[0]
    bar = plain(chain)
    trace = [Step(chain, bar)]
    for word in words[1:]:
        if (n_correct := plain(f"{chain} {word}")) > bar:
            chain, bar = f"{chain} {word}", n_correct
            trace.append(Step(word, bar))
    one_by_one = Member(text=chain, n_correct=bar, trace=tuple(trace))
    ours = word_chain(words[0], candidates=words[1:], count=fast, max_words=len(words))
    return {"same_chain": ours == one_by_one, "chain_length": len(trace), "near_ties": near_ties}
