"""Stage candidates: the pools of words and descriptors, one bare text a line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wsoup.params.whole import load_params
from wsoup.runtime import stage
from wsoup.search import pools


def main(out: Annotated[Path, typer.Option(help="folder for words.txt and descriptors.txt")]) -> None:
    """Write both pools."""
    wanted = load_params().candidates
    count = wanted.words.count
    words = pools.words_from_file(wanted.words.path, count=count) if wanted.words.path else pools.common_words(count)
    pools.write_pool(out / "words.txt", words)
    pools.write_pool(out / "descriptors.txt", pools.descriptors(wanted.descriptors.paths))


if __name__ == "__main__":
    stage.run(main)
