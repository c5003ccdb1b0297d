"""A soup's text features for classes."""

from collections.abc import Sequence

import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.core.class_texts import ClassTexts
from wsoup.core.soup import Soup
from wsoup.runtime.progress import progress
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.templates import encode_members
from wsoup.texts.tokens import check_fits


def member_texts(of: Soup, *, template: str, class_names: Sequence[str], text_encoder: PromptEncoder) -> Tensor:
    """The texts of classes with each member of a soup: (M, C, D).

    Raises:
        PoolError: a text does not fit the model's context after a class.
    """
    step = "it would be cut; shorten the class name or the template"
    check_fits(of.texts, template=template, class_names=class_names, tokenizer=text_encoder.tokenizer, step=step)
    return encode_members(text_encoder, of.texts, template=prompts.checked(template), class_names=class_names)


def soup_texts(of: Soup, *, template: str, class_names: Sequence[str], text_encoder: PromptEncoder) -> ClassTexts:
    """The texts of classes with the members of a soup; raises as `member_texts`."""
    members = member_texts(of, template=template, class_names=class_names, text_encoder=text_encoder)
    return ClassTexts.of_members(members)


def class_texts(of: Soup, *, template: str, class_names: Sequence[str], text_encoder: PromptEncoder) -> Tensor:
    """The soup's centroids on the CPU: (C, D)."""
    texts = soup_texts(of, template=template, class_names=class_names, text_encoder=text_encoder)
    return texts.centroids.cpu()


def prompt_texts(prompts: Sequence[Sequence[str]], *, text_encoder: PromptEncoder) -> Tensor:
    """The centroid of each class's own prompts, on the CPU: (C, D)."""
    means = []
    for prompts_of_class in progress(prompts, label="templates", unit="class"):
        means.append(text_encoder.encode(prompts_of_class).mean(dim=0))
    return ClassTexts(torch.stack(means)).centroids.cpu()
