"""The pools: words, descriptors and those of one's own, one bare text per line."""

import unicodedata
from collections.abc import Mapping, Sequence

from wsoup.base.errors import one_line
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.params.inputs import EncoderParams
from wsoup.params.section import Name, Sections, load
from wsoup.pipeline import stage
from wsoup.search.candidates import pools
from wsoup.search.pools import lists
from wsoup.search.pools.params import CandidatesParams


class Wanted(Sections):
    """The sections of params.yaml that this stage reads."""

    source: Name
    encoder: EncoderParams
    candidates: CandidatesParams


def main(owner: Owner) -> None:
    """Write all pools."""
    params = load(Wanted)
    with store.replacing(Artifacts().pools) as folder:
        for pool in params.candidates.pools:
            texts = pools.texts_of_pool(params.candidates, pool)
            left_out = _left_out(texts, params)
            lists.write_pool(folder / f"{pool}.txt", [text for text in texts if text not in left_out])
            if left_out:
                listed = ", ".join(f"{one_line(text, limit=60)!r} ({reason})" for text, reason in left_out.items())
                print(f"{pool}: {len(left_out)} of {len(texts)} are left out: {one_line(listed, limit=300)}")


def _left_out(texts: Sequence[str], params: Wanted) -> Mapping[str, str]:
    """Texts with the tokens of an earlier one and, if they are to be skipped, those that do not fit; and why."""
    skip_long = params.candidates.on_long_text == "skip"
    spellings = {unicodedata.normalize("NFKC", text).casefold() for text in texts}
    # Nearly always so, and known without a tokenizer, which is slow to import.
    if not skip_long and len(spellings) == len(texts):
        return {}
    from wsoup.texts.tokens import alike, too_long
    from wsoup.towers.models import known_tokenizer

    tokenizer = known_tokenizer(params.encoder)
    # Each begins with a space, as after a class name: some tokenizers split a word differently at the start of a text.
    same = alike([f" {text}" for text in texts], tokenizer=tokenizer)
    left_out = {second[1:]: f"same tokens as {first[1:]!r}" for first, second in same}
    if skip_long:
        manifest = store.require(Artifacts().manifest(params.source), made_by=f"prepare@{params.source}")
        about = store.table_attributes(manifest)
        of_source = {"template": about["template"], "class_names": about["class_names"]}
        for _, text in too_long(texts, **of_source, tokenizer=tokenizer):
            left_out[text] = "does not fit"
    return left_out


if __name__ == "__main__":
    stage.run(main)
