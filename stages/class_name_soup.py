"""The soup without a text: one empty member per seed, so that plain methods need no case of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wsoup import store
from wsoup.params.whole import load_params
from wsoup.runtime import stage

Option = Annotated[Path, typer.Option()]


def main(embeddings: Option, out: Option) -> None:
    """Write the class-name soup of every seed, for the template and encoder of EMBEDDINGS, into folder OUT."""
    attributes = store.read_features(embeddings).attributes
    with store.replacing(out) as folder:
        for seed in load_params().seeds:
            store.write_soup(
                folder / f"seed{seed}.json",
                kind="class_name",
                seed=seed,
                template=attributes["template"],
                encoder=attributes["encoder"],
                members=[{"text": "", "trace": []}],
            )


if __name__ == "__main__":
    stage.run(main)
