"""NaN and infinity: features, text features and losses are checked where they are computed."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch
from finetune_cases import METHODS, draw_colours, finetune_params

from wsoup.base.errors import LONGEST, ModelError, ParamsError
from wsoup.disk.checked import read_checked
from wsoup.finetune.train import Trainer
from wsoup.finetune.training_set import TrainingSet
from wsoup.images.features import encode_files
from wsoup.params.inputs import EncoderParams
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder, load_encoder

NAMES = [name for name in METHODS if not name.endswith(("_image", "_open")) and name not in ("ce", "coop_smooth")]


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> TrainingSet:
    return draw_colours(tmp_path_factory.mktemp("colours"))


def trainer(colours: TrainingSet, encoder: Encoder, *, name: str, **rates: float) -> Trainer:
    shared = finetune_params(iterations=12, log_every=5)
    method = shared.methods[name].model_copy(update={"prompt_factor": 1, **rates})
    return Trainer(encoder, source=colours, method=method, shared=shared, seed=1)


@pytest.mark.parametrize("rate", [pytest.param(1e8, marks=pytest.mark.slow), 1e15])
@pytest.mark.parametrize("name", NAMES)
def test_a_training_that_diverges_names_its_iteration(
    colours: TrainingSet, tiny_encoder: Encoder, name: str, rate: float
) -> None:
    training = trainer(colours, tiny_encoder, name=name, learning_rate=rate, prompt_factor=1e15)
    with pytest.raises(ParamsError, match=r"not finite \(NaN or infinity\) in iteration \d+ of 12; lower") as error:
        training.run()
    assert str(error.value).isprintable()
    assert len(str(error.value)) <= LONGEST


def test_what_a_training_that_diverged_leaves_is_finite(
    tmp_path: Path, colours: TrainingSet, tiny_encoder: Encoder
) -> None:
    state = tmp_path / "state"
    with pytest.raises(ParamsError, match="iteration 2 of 12"):
        trainer(colours, tiny_encoder, name="clipood", learning_rate=1e15).run(resume=state, save_seconds=0)
    kept = safetensors.torch.load(read_checked(state))
    assert all(bool(tensor.isfinite().all()) for tensor in kept.values())


def test_an_image_whose_features_are_not_finite_is_named(
    tiny_encoder_files: dict[str, str], colours: TrainingSet
) -> None:
    params = EncoderParams(**{**tiny_encoder_files, "precision": "fp16"}, image_std=(1e-6, 1e-6, 1e-6))
    encoder = load_encoder(params, device=torch.device("cpu"))
    with pytest.raises(ModelError, match=r"0\.png: its features are not finite"):
        encode_files(
            {"pretrained": encoder}, paths=colours.paths, digests=colours.digests, batch_size=2, on_bad_image="skip"
        )


def test_text_features_that_are_not_finite_are_refused(tiny_encoder_files: dict[str, str]) -> None:
    encoder = load_encoder(EncoderParams(**tiny_encoder_files), device=torch.device("cpu"))
    owl = int(encoder.tokenizer(["owl"])[0, 1])
    encoder.model.token_embedding.weight[owl] = float("nan")  # type: ignore[index,union-attr]
    texts = PromptEncoder(encoder.model, encoder.tokenizer, device=encoder.device)
    with pytest.raises(ModelError, match="not finite"):
        texts.encode(["an owl"])
    with pytest.raises(ModelError, match="not finite"):
        texts.encode_grid(["an owl"], [".", ", sharp."])
