"""`wsoup texts`: texts of a language model for one's own classes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wsoup.base.errors import ParamsError
from wsoup.base.number_of import number_of
from wsoup.cli import common
from wsoup.cli.common import claim

texts_app = typer.Typer(help="Texts of a language model for your classes.", no_args_is_help=True)
Needed = Annotated[
    str, typer.Option("--classes", help="Class names such as 'cat,dog', or a text file with one a line.")
]


@texts_app.command("match")
def match_command(
    file: Annotated[Path, typer.Argument(help="JSON of {key: [text, ...]}, such as CuPL's.")],
    out: Annotated[Path, typer.Option(help="The file of pairs to write.")],
    dataset: Annotated[str | None, typer.Option(help="A dataset of params.yaml, whose classes are taken.")] = None,
    classes: common.Classes = None,
    force: common.Force = False,
) -> None:
    """Propose which key of a file of texts is which class, as a file for datasets.<name>.names.

    Certain pairs come first, doubtful ones as comments.

    Example: wsoup texts match cupl/cars.json --dataset stanford_cars --out cupl/cars.names.txt
    """
    from wsoup.disk.store import write_bytes
    from wsoup.search.candidates.gpt import read_descriptors
    from wsoup.search.candidates.matching import as_text, in_words, proposed_pairs

    claim([("--out", out)], inputs=[file, classes], force=force)
    names = _class_names(dataset, classes=classes)
    pairs = proposed_pairs(list(read_descriptors(file, wording="sentences")), class_names=names)
    write_bytes(out, as_text(pairs, file=str(file)).encode())
    print(f"{out}: {in_words(pairs)}")


def _class_names(dataset: str | None, *, classes: str | None) -> list[str]:
    """Those of a dataset of params.yaml, or the given ones."""
    from wsoup.datasets.manifest import read_listing
    from wsoup.params.section import one_of
    from wsoup.photos.names import listed_names
    from wsoup.pipeline.params import load_params

    if (dataset is None) == (classes is None):
        raise ParamsError("name the classes with --dataset, of params.yaml, or else with --classes")
    if classes is not None:
        return listed_names(classes)
    datasets = load_params().datasets
    section = one_of("datasets", datasets, str(dataset))
    return list(read_listing(str(dataset), params=section).class_names)


@texts_app.command("ask")
def ask_command(
    classes: Needed,
    style: Annotated[str, typer.Option(help="descriptors, after a class name, or sentences, each a whole prompt.")],
) -> None:
    """Print questions to paste into a language model, with the form of the answer. Nothing is sent.

    Example: wsoup texts ask --classes names.txt --style descriptors
    """
    from wsoup.photos.names import listed_names
    from wsoup.search.candidates.questions import STYLES, requests

    if style not in STYLES:
        raise ParamsError(f"--style {style!r} must be one of {', '.join(STYLES)}")
    common.put("\n".join(requests(listed_names(classes), style=STYLES[style])))
    step = f"then: wsoup texts read ANSWER --classes ... --out FILE; datasets.<name>.{STYLES[style].key} takes it"
    common.say([step])


@texts_app.command("read")
def read_command(
    answers: Annotated[list[Path], typer.Argument(help="Files with what a language model answered.")],
    classes: Needed,
    out: Annotated[Path, typer.Option(help="The JSON file to write.")],
    force: common.Force = False,
) -> None:
    """Read answers (JSON, or lists below class names), and write the file that params.yaml takes.

    Example: wsoup texts read answer.txt --classes names.txt --out texts.json
    """
    from wsoup.base.errors import PoolError, one_line
    from wsoup.disk.files import read_text
    from wsoup.disk.store import write_json
    from wsoup.photos.names import listed_names
    from wsoup.search.candidates.replies import read_answer

    claim([("--out", out)], inputs=[*answers, classes], force=force)
    contents = {str(file): read_text(file, kind=PoolError) for file in answers}
    answer = read_answer(contents, class_names=listed_names(classes))
    if answer.unknown:
        first = one_line(", ".join(answer.unknown[:5]))
        common.say([f"left out, {number_of(len(answer.unknown), 'key')} of no class: {first}"])
    write_json(out, answer.texts)
    n_texts = sum(map(len, answer.texts.values()))
    print(f"{out}: {number_of(n_texts, 'text')} of {number_of(len(answer.texts), 'class')}")
