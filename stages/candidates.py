"""The pools of words and descriptors, one bare text per line."""

import unicodedata
from collections.abc import Sequence
from functools import partial

from wsoup.base.errors import one_line
from wsoup.core import prompts
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.params.inputs import EncoderParams
from wsoup.params.section import Name, Sections, load
from wsoup.pipeline import stage
from wsoup.search.rank import pools
from wsoup.search.rank.params import CandidatesParams


class Wanted(Sections):
    """The sections of params.yaml that this stage reads."""

    source: Name
    encoder: EncoderParams
    candidates: CandidatesParams


def main(owner: Owner) -> None:
    """Write both pools."""
    params, artifacts = load(Wanted), Artifacts()
    section = params.candidates
    count = section.words.count
    words = pools.words_from_file(section.words.path, count=count) if section.words.path else pools.common_words(count)
    for pool, texts in (("words", words), ("descriptors", pools.descriptors(section.descriptors.paths))):
        texts = _distinct(texts, params, pool=pool)
        long = _too_long(texts, params) if section.on_long_text == "skip" else []
        pools.write_pool(artifacts.pool(pool), [text for text in texts if text not in long])
        if long:
            listed = one_line(", ".join(map(repr, long)), limit=300)
            print(f"{pool}: {len(long)} of {len(texts)} do not fit the model's context and are left out: {listed}")


def _distinct(texts: Sequence[str], params: Wanted, *, pool: str) -> list[str]:
    """The texts without those whose tokens equal an earlier one's, which are said."""
    if len({text.casefold() for text in map(partial(unicodedata.normalize, "NFKC"), texts)}) == len(texts):
        return [*texts]  # as usual, and known without a tokenizer, which is slow to import
    from wsoup.texts.tokens import alike
    from wsoup.towers.encoder import weightless_encoder

    same = alike([f" {text}" for text in texts], tokenizer=weightless_encoder(params.encoder).tokenizer)
    left_out = {second[1:]: first[1:] for first, second in same}
    if left_out:
        listed = one_line(", ".join(f"{text!r} ({first!r})" for text, first in left_out.items()), limit=300)
        print(f"{pool}: {len(left_out)} have the tokens of another and are left out: {listed}")
    return [text for text in texts if text not in left_out]


def _too_long(texts: Sequence[str], params: Wanted) -> list[str]:
    """Texts that the tokenizer would truncate after the longest class prompt of the source."""
    from wsoup.texts.tokens import too_long  # slow to import, and few runs need it
    from wsoup.towers.encoder import weightless_encoder

    manifest = store.require(Artifacts().manifest(params.source), made_by=f"prepare@{params.source}")
    about = store.table_attributes(manifest)
    stems = prompts.stems(about["template"], about["class_names"])
    return [text for _, text in too_long(texts, stems=stems, tokenizer=weightless_encoder(params.encoder).tokenizer)]


if __name__ == "__main__":
    stage.run(main)
