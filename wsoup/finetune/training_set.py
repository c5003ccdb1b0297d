"""`TrainingSet`: the few-shot images and the texts that one seed trains on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wsoup.base import remote
from wsoup.base.errors import MissingError
from wsoup.core.soup import Soup
from wsoup.disk import store
from wsoup.disk.files import Artifacts, read_text
from wsoup.finetune.params import MethodParams
from wsoup.finetune.tune_params import TuneParams
from wsoup.towers.features import read_features


@dataclass(frozen=True)
class TrainingSet:
    """Images and texts to train on.

    Attributes:
        paths: N image files.
        digests: N content digests of the files at listing time.
        labels: (N,) int64.
        class_names: C names in label order.
        template: of the source dataset.
        soup: M member texts, bare.
        words: what soft descriptors start from; empty: common words of the tokenizer.
    """

    paths: Sequence[str]
    digests: Sequence[str]
    labels: np.ndarray
    class_names: Sequence[str]
    template: str
    soup: Sequence[str]
    words: Sequence[str] = ()

    @property
    def about(self) -> dict[str, object]:
        """What is stored beside weights that were trained on it."""
        about: dict[str, object] = {
            "template": self.template,
            "images": store.fingerprint([list(self.digests), self.labels.tolist()]),
            "soup": list(self.soup),
        }
        if self.words:
            about["words"] = store.fingerprint(list(self.words))
        return about


def read_training_sets(
    artifacts: Artifacts, *, source: str, method: MethodParams, seeds: Sequence[int], encoder_id: Mapping[str, object]
) -> dict[int, TrainingSet]:
    """Read which few-shot images of each seed selection saw, the texts of its soup and the words to start from.

    Args:
        artifacts: of the project.
        source: name of the source dataset.
        method: which soup and which list of words.
        seeds: of the splits and the soups.
        encoder_id: what the soups and the features must be of.

    Raises:
        MissingError: the image folder, manifest, a split, features, a soup or the list of words does not exist.
        MismatchError: a soup or the features have another encoder.
    """
    manifest = store.require(artifacts.manifest(source), made_by=f"prepare@{source}")
    about = store.table_attributes(manifest)
    root = about["root"]
    words = start_words(method.tune)
    if not remote.is_remote(root) and not Path(root).exists():
        raise MissingError(f"datasets.{source}.root: folder {root} does not exist")
    all_digests = store.read_table(manifest, columns=["digest"])["digest"]
    # Images that `embed_train` could not decode have no features, and no selection saw them.
    decoded_rows = read_features(artifacts.features(source, split="train"), encoder=encoder_id).rows
    sets = {}
    for seed in seeds:
        split = store.read_table(artifacts.split(source, seed=seed), columns=["path", "label", "row"])
        split = split.filter(np.isin(split["row"], decoded_rows))
        soup = Soup.load(artifacts.soup(method.soup, seed=seed), encoder=encoder_id)
        paths = [remote.joined(root, path) for path in split["path"].to_pylist()]
        digests = all_digests.take(split["row"]).to_pylist()
        labels = np.asarray(split["label"].to_numpy(), dtype=np.int64)
        sets[seed] = TrainingSet(
            paths=paths,
            digests=digests,
            labels=labels,
            class_names=about["class_names"],
            template=about["template"],
            soup=soup.texts,
            words=words,
        )
    return sets


def start_words(tune: TuneParams) -> list[str]:
    """The words of ``tune.words``; empty if it names no list. Raises MissingError if there is no such file."""
    path = getattr(tune, "words", None)
    if path is None:
        return []
    return read_text(path).split()
