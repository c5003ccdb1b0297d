"""Heads from a few labelled images of each class."""

from __future__ import annotations

import torch

from wsoup.api.arguments import EncoderNames, Features, Labels, Precision, Tokenizer, checked_labels, names_of
from wsoup.api.model import at_work, checked_logit_scale, in_memory
from wsoup.api.soups import TEMPLATE
from wsoup.base.arguments import Flag, at_the_door
from wsoup.base.class_names import Names
from wsoup.core.member import Member
from wsoup.core.soup import Soup, Template
from wsoup.heads.fewshot import checked
from wsoup.heads.head import Head, best_head
from wsoup.heads.zero_shot import class_texts
from wsoup.texts.encoder import PromptEncoder


@at_the_door
def fit_head(
    features: Features,
    labels: Labels,
    *,
    class_names: Names | None = None,
    model: object,
    tokenizer: Tokenizer,
    soup: Soup | None = None,
    kind: str = "ridge",
    template: Template | None = None,
    precision: Precision = "fp32",
    encoder: EncoderNames | None = None,
    progress: Flag = True,
) -> Head:
    """A classifier from a few labelled images of each class: closed form, in seconds.

    Hyperparameters, temperature and abstention are chosen on these images alone, leaving out each shot in turn.
    This needs two images or more of each class; `Head.note` says if there were fewer.

    Args:
        features: (n, D) image features of this model, L2-normalised.
        labels: (n,) whole numbers in [0, C), or class names.
        class_names: C names in label order, each with at least one image (default: of labels that are names, these
            names in sorted order).
        model, tokenizer: an open_clip model, or any object with `encode_text`, and its tokenizer.
        soup: whose texts the head builds on (default: the class name alone).
        kind: ``"ridge"`` (the default), ``"prototypes"``, ``"both"``, their mean, or ``"means"``, class means without
            texts; see `wsoup.heads.kinds`.
        template: prompt template with one ``{}`` (default: the soup's).
        precision: of the text features: fp32 (the default), bf16, fp16 (autocast) or reference.
        encoder: {"model": ..., "pretrained": ...} as open_clip names them, recorded in the head.
        progress: whether to show progress bars (default True).

    Raises:
        DataError: features, labels and names that do not fit together, a class without images, or the same photo under
            two labels.
        ParamsError, ModelError, MismatchError: fewer than two classes, unknown kind, or an unusable model.
    """
    x = torch.as_tensor(features).cpu()
    names = names_of(labels, class_names)
    y = checked_labels(labels, n_images=len(x), class_names=names).cpu()
    scale = checked_logit_scale(model)
    with at_work(model, bars=progress):
        tower = in_memory(model, tokenizer=tokenizer, names=encoder, precision=precision)
        if soup is None:
            bare = (Member(""),)
            soup = Soup("class_name", 0, template or TEMPLATE, tower.id, bare, preprocessing=tower.preprocessing)
        template = template or soup.template
        texts = class_texts(soup, template=template, class_names=names, text_encoder=PromptEncoder.of(tower))  # (C, D)
    shots, note = checked(x, y, texts=texts.T, logit_scale=scale, names=names)
    return best_head(shots, kind=kind, soup=soup, template=template, class_names=names, encoder=tower.id, note=note)
