"""What a stage works with that encodes texts: the model, the seeds and the files of the run."""

from __future__ import annotations

from dataclasses import dataclass, field

from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.params.inputs import EncoderParams
from wsoup.params.section import Name, Sections, Seeds
from wsoup.towers.encoder import Encoder, load_encoder


class SourceParams(Sections):
    """The sections of params.yaml that every stage reads which selects on the source or evaluates."""

    source: Name
    seeds: Seeds
    encoder: EncoderParams


@dataclass(frozen=True)
class Run:
    """What a stage works with that encodes texts.

    Attributes:
        owner: of the stage's resume state.
        source: name of the source dataset.
        seeds: the run's seeds.
        encoder: the pretrained model.
        artifacts: where results are.
    """

    owner: Owner
    source: str
    seeds: tuple[int, ...]
    encoder: Encoder
    artifacts: Artifacts = field(default_factory=Artifacts)

    @classmethod
    def of(cls, owner: Owner, params: SourceParams) -> Run:
        """The run of a params.yaml, with its encoder loaded."""
        encoder = load_encoder(params.encoder)
        return cls(owner, params.source, tuple(params.seeds), encoder, Artifacts())

    @property
    def about(self) -> dict[str, object]:
        """Attributes of every table that the stage writes."""
        return {"encoder": self.encoder.id, "made_with": dict(self.owner.packages)}
