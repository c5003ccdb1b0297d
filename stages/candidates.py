"""Stage candidates: the pools of words and descriptors, one bare text a line."""

from __future__ import annotations

from collections.abc import Sequence

from wsoup.core import prompts
from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.shards import Owner
from wsoup.core.errors import one_line
from wsoup.core.params.encoder import EncoderParams
from wsoup.core.params.section import Name, Sections, load
from wsoup.pipeline import stage
from wsoup.search.rank import pools
from wsoup.search.rank.params import CandidatesParams


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    source: Name
    encoder: EncoderParams
    candidates: CandidatesParams


def main(owner: Owner) -> None:
    """Write both pools."""
    params, artifacts = load(Wanted), Artifacts()
    wanted = params.candidates
    count = wanted.words.count
    words = pools.words_from_file(wanted.words.path, count=count) if wanted.words.path else pools.common_words(count)
    for pool, texts in (("words", words), ("descriptors", pools.descriptors(wanted.descriptors.paths))):
        long = set(_too_long(texts, params)) if wanted.on_long_text == "skip" else set()
        pools.write_pool(artifacts.pool(pool), [text for text in texts if text not in long])
        if long:
            named = one_line(", ".join(repr(text) for text in texts if text in long), limit=300)
            print(f"{pool}: {len(long)} of {len(texts)} do not fit the model's context and are left out: {named}")


def _too_long(texts: Sequence[str], params: Wanted) -> list[str]:
    """Those that the tokenizer would cut behind the longest class prompt of the source."""
    from wsoup.texts.fits import too_long  # takes seconds to import, and few runs need it
    from wsoup.towers.encoder import weightless_encoder

    manifest = store.require(Artifacts().manifest(params.source), made_by=f"prepare@{params.source}")
    about = store.table_attributes(manifest)
    stems = prompts.stems(about["template"], about["class_names"])
    return [text for _, text in too_long(texts, stems=stems, tokenizer=weightless_encoder(params.encoder).tokenizer)]


if __name__ == "__main__":
    stage.run(main)
