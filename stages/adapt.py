"""One adaptation of params.yaml to each target's images without labels: predictions, which the report evaluates."""

import numpy as np
import pyarrow as pa
import torch

from wsoup.adapt.params import Adaptations
from wsoup.adapt.stream import predictions
from wsoup.base.errors import ParamsError
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner, Shards
from wsoup.params.inputs import EncoderParams
from wsoup.params.section import Sections, Seeds, load
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.soup.soup import Soup
from wsoup.texts.classes import class_texts, logit_scale_of
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import load_encoder

NUMBERS = pa.list_(pa.int32())
SCHEMA = pa.schema(
    [
        ("dataset", pa.string()),
        ("regime", pa.string()),
        ("seed", pa.int64()),
        ("before", NUMBERS),  # predictions of the texts alone, in the order of the pile
        ("after", NUMBERS),
        ("adapted", pa.float64()),  # share of images that the guard let be adapted
    ]
)


class Wanted(Sections):
    """The sections of params.yaml that this stage reads."""

    seeds: Seeds
    encoder: EncoderParams
    adapt: Adaptations


def main(owner: Owner, name: str) -> None:
    """Classify all piles of all targets by NAME, an adaptation of section `adapt`; a shard is a seed of a target."""
    params, artifacts = load(Wanted), Artifacts()
    if name not in params.adapt:
        raise ParamsError(f"adapt has no {name!r}; it has {', '.join(params.adapt) or 'none'}")
    definition = params.adapt[name]
    encoder = load_encoder(params.encoder)
    soups = [Soup.load(artifacts.soup(definition.soup, seed=seed), encoder=encoder.id) for seed in params.seeds]
    targets = sorted(artifacts.piles.glob("*.zarr"))
    piles = [store.read_table(path.with_suffix(".parquet")).to_pylist() for path in targets]
    inputs = [encoder.id, definition.kind, params.seeds, [soup.as_json() for soup in soups]]
    work = [
        Shards(owner, inputs=[*inputs, store.features_attributes(path), of_target], n=len(soups))
        for path, of_target in zip(targets, piles, strict=True)
    ]

    def task(number: int, shard: int) -> dict[str, np.ndarray]:
        texts = PromptEncoder.of(encoder)  # a new one: what was encoded before may affect the last bits of a text
        images = store.read_features(targets[number], encoder=encoder.id)
        template, features = images.attributes["template"], torch.from_numpy(images.features)
        of_classes = class_texts(soups[shard], template=template, class_names=images.class_names, encoder=texts)
        arrays: dict[str, np.ndarray] = {}
        for pile in (pile for pile in piles[number] if pile["seed"] == params.seeds[shard]):
            before, after, adapted = predictions(
                features[pile["images"]],
                texts=of_classes.T,
                logit_scale=logit_scale_of(encoder.model),
                kind=definition.kind,
                batch=pile["batch"],
            )
            both = torch.stack([before, after]).to(torch.int32).numpy()
            arrays |= {f"{pile['regime']}/answers": both, f"{pile['regime']}/adapted": np.array([adapted])}
        return arrays

    finish_shards(work, task=task, label=f"adapt {name}", unit="target")
    lines = [
        {
            "dataset": path.stem,
            "regime": pile["regime"],
            "seed": seed,
            "before": arrays[f"{pile['regime']}/answers"][0],
            "after": arrays[f"{pile['regime']}/answers"][1],
            "adapted": float(arrays[f"{pile['regime']}/adapted"][0]),
        }
        for path, of_target, shards in zip(targets, piles, work, strict=True)
        for seed, arrays in zip(params.seeds, shards.load(), strict=True)
        for pile in of_target
        if pile["seed"] == seed
    ]
    out = artifacts.results / "adapted" / f"{name}.parquet"
    attributes = {"encoder": encoder.id, **definition.model_dump(), "made_with": dict(owner.packages)}
    store.write_table(out, pa.Table.from_pylist(lines, schema=SCHEMA), attributes=attributes)
    by_target = ((path.stem, [line["adapted"] for line in lines if line["dataset"] == path.stem]) for path in targets)
    shares = ", ".join(f"{target} {np.mean(adapted):.0%}" for target, adapted in by_target)
    print(f"{out}: adapted, the rest left to the texts: {shares}")


if __name__ == "__main__":
    stage.run(main)
