"""One adaptation of params.yaml to each target's images without labels: answers, which the report holds to labels."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch

from wsoup.adapt.answers import answers
from wsoup.adapt.params import Adaptations
from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.shards import Owner, Shards
from wsoup.core.errors import ParamsError
from wsoup.core.params.encoder import EncoderParams
from wsoup.core.params.section import Sections, Seeds, load
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.soup.soup import Soup
from wsoup.texts.classes import class_texts, logit_scale_of
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import load_encoder

SEEN = ["regime", "seed", "batch", "images"]
ANSWERS, SHARE = "answers/", "adapted/"
NUMBERS = pa.list_(pa.int32())
SCHEMA = pa.schema(
    [
        ("dataset", pa.string()),
        ("regime", pa.string()),
        ("seed", pa.int64()),
        ("before", NUMBERS),  # the texts' own answers, in the order of the pile
        ("after", NUMBERS),
        ("adapted", pa.float64()),  # share of the images that the guard did not leave to the texts
    ]
)


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    seeds: Seeds
    encoder: EncoderParams
    adapt: Adaptations


def main(owner: Owner, name: str) -> None:
    """Answer all piles of all targets by NAME, an adaptation of section `adapt`; a shard is a seed of a target."""
    params, artifacts = load(Wanted), Artifacts()
    if name not in params.adapt:
        raise ParamsError(f"adapt has no {name!r}; it has {', '.join(params.adapt) or 'none'}")
    wanted = params.adapt[name]
    encoder = load_encoder(params.encoder)
    soups = [Soup.load(artifacts.soup(wanted.soup, seed=seed), encoder=encoder.id) for seed in params.seeds]
    targets = sorted(artifacts.piles.glob("*.zarr"))
    piles = [store.read_table(path.with_suffix(".parquet"), columns=SEEN).to_pylist() for path in targets]
    about = [encoder.id, wanted.kind, params.seeds, [soup.as_json() for soup in soups]]
    work = [
        Shards(owner, inputs=[*about, store.features_attributes(path), of_path], n=len(soups))
        for path, of_path in zip(targets, piles, strict=True)
    ]

    def task(number: int, shard: int) -> dict[str, np.ndarray]:
        texts = PromptEncoder.of(encoder)  # of its own: what was encoded before may decide the last bits of a text
        images = store.read_features(targets[number], encoder=encoder.id)
        template, features = images.attributes["template"], torch.from_numpy(images.features)
        of_classes = class_texts(soups[shard], template=template, class_names=images.class_names, encoder=texts)
        made: dict[str, np.ndarray] = {}
        for pile in (pile for pile in piles[number] if pile["seed"] == params.seeds[shard]):
            one = answers(
                features[pile["images"]],
                texts=of_classes.T,
                logit_scale=logit_scale_of(encoder.model),
                kind=wanted.kind,
                batch=pile["batch"],
            )
            both = torch.stack([one.before, one.after]).to(torch.int32).numpy()
            made |= {f"{ANSWERS}{pile['regime']}": both, f"{SHARE}{pile['regime']}": np.array([one.adapted])}
        return made

    finish_shards(work, task=task, label=f"adapt {name}", unit="target")
    lines = [
        {
            "dataset": path.stem,
            "regime": pile["regime"],
            "seed": seed,
            "before": made[ANSWERS + pile["regime"]][0],
            "after": made[ANSWERS + pile["regime"]][1],
            "adapted": float(made[SHARE + pile["regime"]][0]),
        }
        for path, of_path, shards in zip(targets, piles, work, strict=True)
        for seed, made in zip(params.seeds, shards.load(), strict=True)
        for pile in of_path
        if pile["seed"] == seed
    ]
    out = artifacts.results / "adapted" / f"{name}.parquet"
    attributes = {"encoder": encoder.id, **wanted.model_dump(), "made_with": dict(owner.packages)}
    store.write_table(out, pa.Table.from_pylist(lines, schema=SCHEMA), attributes=attributes)
    by_target = ((path.stem, [line["adapted"] for line in lines if line["dataset"] == path.stem]) for path in targets)
    said = ", ".join(f"{target} {np.mean(shares):.0%}" for target, shares in by_target)
    print(f"{out}: adapted, the rest left to the texts: {said}")


if __name__ == "__main__":
    stage.run(main)
