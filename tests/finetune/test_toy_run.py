"""The diversity loss on the toy world; needs the artifacts of `make repro`."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest
from yaml_in_c import safe_load

from wsoup.disk.files import Artifacts
from wsoup.finetune.params import MethodParams
from wsoup.finetune.train import Trainer
from wsoup.finetune.training_set import read_training_sets
from wsoup.pipeline.params import parse_params
from wsoup.pipeline.profiles.demo import demo
from wsoup.towers.encoder import load_encoder

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "artifacts/manifests/shapes.parquet"
WORD_SOUPS = ROOT / "artifacts/soups/word"


@pytest.mark.slow
@pytest.mark.skipif(not (MANIFEST.exists() and WORD_SOUPS.exists()), reason="needs `make repro` to have run")
def test_the_diversity_loss_increases_the_divergence_of_members(monkeypatch):
    """KL between members in the second half of training is higher with the loss than without, for every seed."""
    monkeypatch.chdir(ROOT)
    params = parse_params(safe_load(demo("all")), origin="methods")
    encoder = load_encoder(params.encoder)
    diverse = params.finetune.methods["ce_diverse"]
    sources = read_training_sets(
        Artifacts(), source=params.source, method=diverse, seeds=params.seeds, encoder_id=encoder.id
    )
    for seed, source in sources.items():

        def divergence(name: str, *, seed: int = seed, source=source) -> float:
            method: MethodParams = params.finetune.methods[name]
            run = Trainer(encoder, source=source, method=method, shared=params.finetune, seed=seed)
            run.run()
            return mean(line["members_kl"] for line in run.log[len(run.log) // 2 :])

        assert divergence("ce_diverse") > divergence("ce_word_lambda0"), seed
