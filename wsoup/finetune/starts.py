"""The tokens that a prompt and soft descriptors start from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

import torch
from torch import Tensor

from wsoup.base.errors import ModelError, ParamsError
from wsoup.finetune.tune_params import SoftDescriptorsTune, TuneParams

Tokenizer = Callable[[Sequence[str]], Tensor]
COMMON_WORDS = 9_000
"""Words that soft descriptors start from; token ids are in order of frequency."""


def check_templates(tune: TuneParams, templates: Mapping[str, str], *, source: str, tokenizer: Tokenizer) -> None:
    """Raise ParamsError unless all templates begin with the same tokens as the source's, which a prompt replaces."""
    n = tune.n_prompt
    # The start of text, and the tokens that a prompt replaces.
    expected = _before_class_name(templates[source], tokenizer=tokenizer)[: n + 1]
    for name, template in templates.items():
        tokens = _before_class_name(template, tokenizer=tokenizer)[: n + 1]
        if not torch.equal(tokens, expected):
            raise ParamsError(
                f"datasets.{name}.template {templates[name]!r} must begin with the same {n} tokens as that of "
                f"{source}, {templates[source]!r}: a trained prompt replaces them"
            )


def prompt_start(n: int, *, tokenizer: Tokenizer, template: str) -> Tensor:
    """The first n tokens of the template, (n,), which must come before the class name."""
    tokens = _before_class_name(template, tokenizer=tokenizer)
    n_before = int(tokens.argmax()) - 1  # between the start of text and its end, which has the highest id
    if n_before < n:
        raise ParamsError(
            f"template {template!r} has {n_before} tokens before the class name, fewer than the {n} of the prompt; "
            "train fewer tokens or choose another template"
        )
    return tokens[1 : 1 + n]


def _before_class_name(template: str, *, tokenizer: Tokenizer) -> Tensor:
    """(context,) tokens of the part of a template before its placeholder."""
    beginning, _, _ = template.partition("{")
    return tokenizer([beginning.strip()])[0]


def descriptor_starts(
    tune: SoftDescriptorsTune, *, tokenizer: Tokenizer, words: Sequence[str], soup: Sequence[str]
) -> Tensor:
    """The tokens before the period that soft descriptors start as, (M, n - 1); see `make_student`."""
    if tune.start == "soup":
        return _soup_starts(tune, soup=soup, tokenizer=tokenizer)
    return _random_starts(tune, words=_one_token(words, tokenizer=tokenizer))


def _random_starts(tune: SoftDescriptorsTune, *, words: Tensor) -> Tensor:
    """Distinct words of one token each: (M, n - 1)."""
    if len(words) < tune.tokens:
        raise ModelError(f"tune.words: needs {tune.tokens} words of one token each, there are {len(words)}")
    drawn = []
    for _ in range(tune.members):
        order = torch.randperm(len(words))
        drawn.append(words[order[: tune.tokens - 1]])
    return torch.stack(drawn)


def _soup_starts(tune: SoftDescriptorsTune, *, soup: Sequence[str], tokenizer: Tokenizer) -> Tensor:
    """Tokens of the first members of a soup, repeated from the first on or cut to fit: (M, n - 1)."""
    if len(soup) < tune.members:
        raise ParamsError(f"tune.members is {tune.members}, and the soup to start from has {len(soup)}; lower it")
    starts = []
    members = list(soup[: tune.members])
    for member, tokens in zip(members, tokenizer(members), strict=True):
        end = int(tokens.argmax())  # the end of text has the highest id
        words = tokens[1:end]
        if not len(words):
            raise ParamsError(f"the soup to start from has a member without words, {member!r}: choose another soup")
        places = torch.arange(tune.tokens - 1) % len(words)
        starts.append(words[places])
    return torch.stack(starts)


def _one_token(words: Sequence[str], *, tokenizer: Tokenizer) -> Tensor:
    """Tokens of those words that are a single one; without words, of the most common ones of open_clip's tokenizer."""
    if words:
        tokens = tokenizer(list(words))
        # The end of text has the highest id: at position 2 there is one token between it and the start.
        is_one_token = tokens.argmax(dim=1) == 2
        return tokens[is_one_token, 1]
    vocabulary: Mapping[int, str] = getattr(tokenizer, "decoder", {})
    return torch.tensor(list(islice(_whole_words(vocabulary), COMMON_WORDS)))


def _whole_words(vocabulary: Mapping[int, str]) -> Iterator[int]:
    """Ids of the tokens that are a word of letters, the most common first."""
    for token, text in sorted(vocabulary.items()):
        word = text.removesuffix("</w>")  # which marks the end of a word
        if word != text and text.isascii() and word.isalpha():
            yield token
