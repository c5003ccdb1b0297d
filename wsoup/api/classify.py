"""Photos to their most probable classes, with a soup or a head and the encoder that it was made with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wsoup.adaptation import em
from wsoup.api.model import HF, load_transformers
from wsoup.api.photos import Photo
from wsoup.base.errors import MismatchError, MissingError, ModelError, ParamsError
from wsoup.core.scoring import normalize
from wsoup.heads.head import Head
from wsoup.images.decode import batches
from wsoup.params.inputs import EncoderParams
from wsoup.params.section import parse, read_yaml
from wsoup.runtime.progress import progress
from wsoup.soup.soup import Soup
from wsoup.texts.classes import logit_scale_of, soup_features
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder, choose_device, load_encoder

IDENTITY = ("config", "weights", "sha256", "quick_gelu", "precision")
"""Keys of an encoder id that decide its features; the other keys are names."""
PREPROCESSING = {"image_mean": "mean", "image_std": "std", "interpolation": "interpolation"}
"""Keys of section `encoder` -> keys of a soup's preprocessing."""


@dataclass(frozen=True)
class Prediction:
    """The answer for one photo.

    Attributes:
        photo: the photo.
        classes, probabilities: the most probable classes, best first; empty if the photo could not be read.
        agreeing: members of the soup whose own answer is the same; None if not asked for.
        status: ``ok``, ``unsure`` (below the threshold) or ``not read``.
    """

    photo: Photo
    classes: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    agreeing: tuple[str, ...] | None = None
    status: str = "ok"

    @property
    def right(self) -> bool | None:
        """Whether the first class is the photo's label; None without a label or an answer."""
        return self.photo.label == self.classes[0] if self.photo.label is not None and self.classes else None


@dataclass
class Classifier:
    """A soup or a head, ready for photos.

    Attributes:
        encoder: image and text towers.
        class_names: C names.
        weights: (D, C).
        logit_scale: factor of the logits f weights.
        texts, members: the soup's texts, M, and their features, (M, C, D); empty and None for a head.
        adapted: what predicts instead, after `adapt`.
        note: result of the adaptation.
        bad: what is wrong with each photo that could not be read, by path; filled by `predictions`.
    """

    encoder: Encoder
    class_names: Sequence[str]
    weights: Tensor
    logit_scale: float
    texts: Sequence[str] = ()
    members: Tensor | None = None
    adapted: em.Adapted | None = None
    note: str = ""
    bad: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_soup(
        cls, soup: Soup, *, encoder: Encoder, class_names: Sequence[str], template: str | None, mode: str
    ) -> Classifier:
        """Classifier of a soup; arguments as `Soup.classifier`."""
        members, weights = soup_features(
            soup,
            template=template or soup.template,
            class_names=class_names,
            encoder=PromptEncoder.of(encoder),
            mode=mode,
        )  # (M, C, D), (C, D)
        scale = logit_scale_of(encoder.model)
        return cls(encoder, class_names, weights.T.cpu(), scale, texts=soup.texts, members=members.cpu())

    @classmethod
    def of_head(cls, head: Head, *, encoder: Encoder) -> Classifier:
        """Classifier of a head, for the head's own classes."""
        return cls(encoder, head.class_names, head.classifier, 1 / head.temperature)

    def predictions(
        self, photos: Sequence[Photo], *, top: int, threshold: float, explain: bool, batch_size: int, adapt: bool
    ) -> Iterator[Prediction]:
        """Classify photos in order; problems of photos that cannot be read go to `bad`.

        Args:
            photos: the photos.
            top: number of classes per photo.
            threshold: photos below this probability are unsure.
            explain: whether to list the members that agree.
            batch_size: photos in one forward pass.
            adapt: whether to adapt to these photos, which are then all encoded before the first answer.

        Raises:
            ParamsError: adaptation of a head.
        """
        if adapt and self.members is None:
            raise ParamsError("--adapt is for a soup, not for a head; leave one of them out")
        encoded: Iterable[tuple[list[int], Tensor, list[int]]]
        encoded = self._encoded([photo.path for photo in photos], batch_size=batch_size)
        if adapt:
            encoded = list(encoded)
            self._adapt([features for _, features, _ in encoded if len(features)])
        for positions, features, unreadable in encoded:
            batch = [photos[position] for position in positions]
            answers = self.answers(batch, features, top=top, threshold=threshold, explain=explain)
            predictions = dict(zip(positions, answers, strict=True))
            for position in unreadable:
                agreeing = () if explain else None
                predictions[position] = Prediction(photos[position], agreeing=agreeing, status="not read")
            yield from (predictions[position] for position in sorted(predictions))

    def answers(
        self, photos: Sequence[Photo], features: Tensor, *, top: int, threshold: float = 0.0, explain: bool = False
    ) -> Iterator[Prediction]:
        """Classify photos whose features (B, D) are known; arguments as `predictions`."""
        if not photos:
            return
        logits = self.logit_scale * features @ self.weights  # (B, C)
        if self.adapted is not None:
            logits = self.adapted.logits(features)
        probabilities, order = logits.softmax(dim=1).sort(dim=1, descending=True, stable=True)
        votes = None
        if explain and self.members is not None:
            votes = torch.einsum("bd,mcd->bmc", features, self.members).argmax(dim=2)  # (B, M)
        for i, photo in enumerate(photos):
            labels, best = order[i, :top].tolist(), tuple(probabilities[i, :top].tolist())
            agreeing = None
            if votes is not None:
                pairs = zip(self.texts, votes[i].tolist(), strict=True)
                agreeing = tuple(text for text, vote in pairs if vote == labels[0])
            names = tuple(self.class_names[label] for label in labels)
            yield Prediction(photo, names, best, agreeing, "unsure" if best[0] < threshold else "ok")

    def _encoded(self, paths: Sequence[str], *, batch_size: int) -> Iterator[tuple[list[int], Tensor, list[int]]]:
        """For each batch: positions of readable photos, their features (B, D), positions of the others."""
        at_once = self.encoder.images_at_once(batch_size)
        decoded = batches(paths, transform=self.encoder.preprocess, batch_size=at_once, on_bad_image="skip")
        with progress(label="classify", total=len(paths), unit="photo") as bar:
            for batch in decoded:
                self.bad |= {paths[position]: error.args[0] for position, error in batch.bad.items()}
                positions = batch.positions
                features = self.encoder.encode_images(batch.pixels).cpu() if positions else torch.empty(0, 0)
                yield positions, features, [*batch.bad]
                bar.update(len(positions) + len(batch.bad))

    def _adapt(self, features: Sequence[Tensor]) -> None:
        """Adapt the classifier to these features, unless the texts' own is safer."""
        if features:
            texts = normalize(self.weights.T).T
            self.adapted = em.adapt(torch.cat([*features]), texts=texts, logit_scale=self.logit_scale)
            self.note = self.adapted.note or f"adapted to {sum(map(len, features))} photos"


@dataclass(frozen=True)
class EncoderOptions:
    """Options about the encoder, as in section `encoder` of params.yaml; None if not given."""

    model: str | None = None
    pretrained: str | None = None
    config: str | None = None
    image_mean: tuple[float, float, float] | None = None
    image_std: tuple[float, float, float] | None = None
    interpolation: str | None = None

    def load(self, *, device: str | None, origin: str, defaults: Mapping[str, Any]) -> Encoder:
        """Load the encoder of these options, completed by `defaults`; messages name `origin`.

        Raises:
            ModelError, MissingError: its weights are unknown, missing or cannot be loaded.
            ParamsError: options that a model of transformers does not take.
        """
        given = {name: value for name, value in asdict(self).items() if value is not None}
        section = {"precision": "fp32", "watch": "data/nothing_to_watch.txt", **defaults, **given}
        if str(section["model"]).startswith(HF):
            if unused := {*given} - {"model"}:
                raise ParamsError(
                    f"{section['model']} brings its own weights and preprocessing; leave out {min(unused)}"
                )
            return load_transformers(section["model"], device=choose_device(device), precision=section["precision"])
        params = parse(EncoderParams, section, origin=f"encoder of {origin}")
        if params.pretrained is None and not params.comes_with_weights:
            raise ModelError(
                f"{origin} does not say how its encoder ({params.model}) is loaded; give --model and --pretrained, or "
                "make it with encoder={'model': ..., 'pretrained': ...}"
            )
        if params.weights_file is not None and not params.weights_file.is_file():
            raise MissingError(
                f"{origin} was made with local weights, {params.pretrained}, which are not here; run in the folder of "
                "its params.yaml, or give --pretrained FILE (and --config FILE)"
            )
        return load_encoder(params, device=choose_device(device))


def encoder_of(
    soup: Soup, *, encoder_id: Mapping[str, Any], origin: str, params: Path, options: EncoderOptions, device: str
) -> Encoder:
    """Load the encoder of a soup, or of a head on it, with the soup's preprocessing.

    Its names come from `encoder_id`, and local files from params.yaml if that is about the same encoder; options
    override both.

    Args:
        soup: the soup.
        encoder_id: of the soup or the head.
        origin: the file, for messages.
        params: a params.yaml, which may be missing.
        options: of the user.
        device: auto, cpu, cuda...

    Raises:
        ModelError, MissingError: its weights are unknown, missing or cannot be loaded.
        MismatchError: its config, weights or preprocessing differ from those the soup was made with.
    """
    names = {"model": encoder_id.get("model"), "pretrained": encoder_id.get("pretrained")}
    images = {key: soup.preprocessing.get(name) for key, name in PREPROCESSING.items() if soup.preprocessing.get(name)}
    defaults = {**names, "precision": encoder_id.get("precision", "fp32"), **images}
    if options.model is None:
        defaults |= _local_files(params, names=names)
    encoder = options.load(device=device, origin=origin, defaults=defaults)
    loaded = {**encoder.id, **encoder.preprocessing}
    expected = {key: encoder_id[key] for key in IDENTITY if encoder_id.get(key) is not None} | dict(soup.preprocessing)
    differing = [key for key, value in expected.items() if loaded.get(key) != value]
    if differing:
        pairs = ", ".join(f"{key} {expected[key]} there, {loaded.get(key)} here" for key in differing)
        raise MismatchError(
            f"{origin} was made with another encoder than {encoder.id['model']} / {encoder.id['pretrained']} "
            f"({pairs}); name that one with --model, --pretrained, --config, --image-mean and --image-std, or make a "
            "soup for this one"
        )
    return encoder


def _local_files(params: Path, *, names: Mapping[str, Any]) -> dict[str, Any]:
    """Section encoder of params.yaml, if it is about the same model and weights."""
    section = read_yaml(params).get("encoder") if params.is_file() else None
    if not isinstance(section, dict) or section.get("model") != names["model"]:
        return {}
    pretrained = str(section.get("pretrained"))
    if names["pretrained"] not in (pretrained, Path(pretrained).name):
        return {}
    return {key: value for key, value in section.items() if value is not None}
