"""Soups and heads as the command line names them: found, loaded, and made classifiers of named classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wsoup.base import remote
from wsoup.base.errors import MissingError, ParamsError, one_line
from wsoup.base.nearest_path import nearest_path
from wsoup.cli import common

PARAMS = Path("params.yaml")
"""Where section `encoder` is looked for unless --params names another file."""
WHERE_FROM = "`wsoup try` writes a soup and a head, `dvc repro` those of a pipeline folder"
"""What to do where a soup or head file does not exist."""
WEIGH = "autoclip"
"""The way of weighing texts that `wsoup classify` knows: it sees one photo at a time, and no label."""

if TYPE_CHECKING:
    from wsoup.api.encoders import EncoderOptions
    from wsoup.core.modes import Mode
    from wsoup.core.soup import Soup
    from wsoup.photos.classify import Classifier
    from wsoup.towers.encoder import Encoder


def load(name: str) -> tuple[Soup, Path | str]:
    """A soup, or all seeds in a folder as one, and where it lies.

    A path or URL as is; word-seed1 -> artifacts/soups/word/seed1.json; word -> folder artifacts/soups/word; paper:word
    -> the authors' own.
    """
    from wsoup.core.soup import Soup, load_seeds
    from wsoup.paper import soups as of_paper

    if of_paper.is_named(name):
        return of_paper.named(name), name
    if remote.is_remote(name):
        return Soup.load(name), name
    place = _place_of(name)
    return load_seeds(place) if place.is_dir() else Soup.load(place), place


def _place_of(name: str) -> Path:
    """The file of a soup or a head on this machine, or the folder of a soup's seeds; MissingError if there is none."""
    path = Path(name)
    if path.is_file():
        return path
    folder = path.parent if path.parent.name else Path("artifacts/soups")
    word, is_short, seed = path.stem.rpartition("-seed")
    of_seed = folder / word / f"seed{seed}.json"
    if is_short and of_seed.is_file():
        return of_seed
    for seeds in (path, folder / path.name):
        if any(seeds.glob("seed*.json")):
            return seeds
    # Unlike soups, the heads of several seeds do not make one.
    heads = sorted(Path("artifacts/heads", name).glob("seed*.safetensors"))
    if heads:
        raise MissingError(f"{name!r} is a head, not a soup; where a head is taken, name its file: {heads[0]}")
    is_a_path = bool(path.suffix or path.parent.name)
    if is_a_path and not path.exists():
        raise MissingError(f"{one_line(path)} does not exist; {nearest_path(path) or WHERE_FROM}")
    raise MissingError(
        f"no soup {name!r}; give a file such as artifacts/soups/word/seed1.json or a name such as word or word-seed1 "
        "(soups are made by `dvc repro soup@word`), or paper:word, which needs no search"
    )


def check_there(name: str) -> None:
    """Raise MissingError, as `load` does, for a soup or a head that is not on this machine."""
    from wsoup.paper import soups as of_paper

    if not of_paper.is_named(name) and not remote.is_remote(name):
        _place_of(name)


def run_soup(params: Path) -> tuple[str, Mode]:
    """Name of the run's own soup, and the mode it is judged in; ParamsError if there is no params.yaml."""
    from wsoup.evaluate.params import ReportParams
    from wsoup.evaluate.rows import judged_mode
    from wsoup.params import section

    class Wanted(section.Sections):
        report: ReportParams

    if not params.is_file():
        raise ParamsError(f"there is no {params} whose report.soup names a soup; name one: {common.WHICH.lower()}")
    report = section.load(Wanted, params).report
    return report.soup, judged_mode(report.soup, mode=report.mode)


def load_classifier(
    name: str | None,
    *,
    classes: str | None,
    template: str | None,
    params: Path | None,
    options: EncoderOptions,
    device: str,
    adapt: bool = False,
    weigh: str | None = None,
) -> tuple[Classifier, Callable[[], Encoder]]:
    """The classifier of a soup with classes, or of a head, and how to get its encoder; a head's is only then loaded.

    The encoder of a `params` file that the user named also serves a soup of the paper; that of a params.yaml in whose
    folder the user happens to be does not. With `weigh`, texts are weighed for each photo. Whatever can be wrong with
    the other arguments is said before an encoder is loaded.
    """
    from wsoup.api.encoders import encoder_of, names_another
    from wsoup.core.prompts import checked
    from wsoup.core.soup import NOT_SELECTED
    from wsoup.heads.head import Head
    from wsoup.paper import soups as of_paper
    from wsoup.photos.classify import BUILT_IN, Classifier
    from wsoup.photos.names import listed_names

    given = params
    if given is not None and not given.is_file():
        raise MissingError(f"--params: there is no {given}; name a params.yaml, or the encoder.yaml of `wsoup try`")
    params = given or PARAMS
    is_head = name is not None and Path(name).suffix == ".safetensors"
    if name is not None and name not in BUILT_IN:
        check_there(name)
    check_weighing(weigh, adapt=adapt, is_head=is_head)
    encoder_for = partial(encoder_of, params=params, options=options, device=device)
    if name is not None and is_head:
        if classes is not None or template is not None or adapt:
            raise ParamsError("a head knows its classes and its template, and is not adapted; leave those options out")
        head = Head.load(name)
        return Classifier.of_head(head), partial(encoder_for, head.soup, encoder_id=head.encoder, origin=name)
    if classes is None:
        beside = Path(name or "").parent / "classes.txt"  # as `wsoup try` writes it
        if name is not None and Path(name).is_file() and beside.is_file():
            raise ParamsError(
                f"{name} is a soup for any classes; name them: --classes {beside}, or --classes 'cat,dog'"
            )
        raise ParamsError(
            "name the classes, and a soup unless it is the run's own (--classes 'cat,dog' --soup word), or a head "
            "(--soup head.safetensors)"
        )
    names = listed_names(classes)
    if template is not None:
        template = checked(template)
    if name in BUILT_IN:
        # The class name and the templates belong to no soup that could say how its encoder is loaded.
        encoder = options.of_params(params, device=device)
        if name == "templates" and template is not None:
            common.say(["templates: of --template only what follows the class name is used"])
        template = template or "a photo of a {}."
        return _built_in(name, class_names=names, template=template, encoder=encoder, weigh=weigh), lambda: encoder
    mode: Mode = "centroid"
    if name is None:
        name, mode = run_soup(params)
    soup, file = load(name)
    if template is not None and soup.of_templates:
        common.say([f"{name}: its members are templates themselves, so --template is not used"])
    if soup.kind == NOT_SELECTED:
        encoder = options.of_params(params, device=device)
    elif of_paper.is_named(name) and options.name_another_than(soup.encoder):
        theirs = {key: str(soup.encoder[key]) for key in ("model", "pretrained")}
        encoder = _unmeasured(soup, options.load(device=device, origin=name, defaults=theirs), name=name)
    elif of_paper.is_named(name) and given is not None and names_another(given, soup.encoder):
        encoder = _unmeasured(soup, options.of_params(params, device=device), name=name)
    else:
        encoder = encoder_for(soup, encoder_id=soup.encoder, origin=str(file))
    if weigh is not None:
        return _weighed(soup, class_names=names, template=template, encoder=encoder), lambda: encoder
    classifier = Classifier.of_soup(soup, encoder=encoder, class_names=names, template=template, mode=mode)
    return classifier, lambda: encoder


def check_weighing(weigh: str | None, *, adapt: bool, is_head: bool) -> None:
    """Raise ParamsError for a way of weighing texts that is not known, or that other options leave no texts for."""
    if weigh is None:
        return
    if weigh != WEIGH:
        raise ParamsError(f"--weigh {weigh!r} is not known; it must be {WEIGH}")
    if is_head:
        raise ParamsError("a head has no texts to weigh; leave --weigh out")
    if adapt:
        raise ParamsError(
            "--weigh weighs texts for one photo, and --adapt adapts their mean to all photos; leave one of them out"
        )


def _built_in(
    name: str, *, class_names: Sequence[str], template: str, encoder: Encoder, weigh: str | None
) -> Classifier:
    from wsoup.photos.classify import Classifier, WeighedClassifier, built_in_members, built_in_texts

    about = {"template": template, "texts": name}
    if weigh is not None:
        members = built_in_members(name, class_names=class_names, template=template, encoder=encoder)
        return WeighedClassifier.of_members(members, class_names=class_names, encoder=encoder, **about)
    weights = built_in_texts(name, class_names=class_names, template=template, encoder=encoder)
    return Classifier.of_texts(weights, class_names=class_names, encoder=encoder, **about)


def _weighed(soup: Soup, *, class_names: Sequence[str], template: str | None, encoder: Encoder) -> Classifier:
    from wsoup.heads.zero_shot import member_texts
    from wsoup.photos.classify import WeighedClassifier
    from wsoup.texts.encoder import PromptEncoder

    template = template or soup.template
    texts = PromptEncoder.of(encoder)
    members = member_texts(soup, template=template, class_names=class_names, text_encoder=texts)
    about = {"template": template, "soup": soup.as_json()}
    return WeighedClassifier.of_members(members, class_names=class_names, encoder=encoder, **about)


def _unmeasured(soup: Soup, encoder: Encoder, *, name: str) -> Encoder:
    """Another encoder for a soup of the paper, after a line that says so: its texts are of use with any."""
    theirs = f"{soup.encoder['model']} / {soup.encoder['pretrained']}"
    ours = f"{encoder.id['model']} / {encoder.id['pretrained']}"
    common.say([f"{name} was selected with {theirs}; it was not measured with {ours}"])
    return encoder
