"""params.yaml for a folder of your own images."""

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from wsoup.base.errors import DataError, ParamsError
from wsoup.base.folder_names import changes, proposed
from wsoup.datasets import division, folder, roles
from wsoup.datasets.division import Sides
from wsoup.datasets.given import is_given
from wsoup.datasets.left_out import left_out
from wsoup.datasets.listing import Listing
from wsoup.datasets.shape import shape_of
from wsoup.datasets.walk import require_folder, subfolders
from wsoup.params.inputs import EncoderParams
from wsoup.params.reading import parse_yaml
from wsoup.pipeline.params import parse_params
from wsoup.pipeline.profiles import listed
from wsoup.pipeline.profiles.templates import filled, template

TEMPLATE = "a photo of a {}."
MODEL = "ViT-B-32"
"""Where the user names none."""
NOTHING_TO_WATCH = "data/nothing_to_watch.txt"


class Profile(NamedTuple):
    """A params.yaml for a folder of images.

    Attributes:
        text: of params.yaml.
        notes: lines to say: what is left out, how the photos are divided, and how classes are named.
        names: what `names_file` must hold, class name by folder; empty if it is not needed.
    """

    text: str
    notes: Sequence[str]
    names: Mapping[str, str]


def own(
    images: str,
    *,
    encoder: Mapping[str, Any],
    test_fraction: float | None = None,
    classes: str | None = None,
    names_file: Path | None = None,
) -> Profile:
    """params.yaml for a folder of your own images, with the class names that `wsoup try` would use.

    Args:
        images: a list of labelled images, or a folder of them, divided as `wsoup.datasets.division.sides` says; or a
            folder of such folders, exactly one of which has train/ and is the source. The others are targets, with
            role dg if they have the same classes, else xd.
        encoder: keys of section encoder that the user gave. ``pretrained`` is a tag or a weights file; the models
            ``hf-hub:...`` and ``local-dir:...`` come with their weights; the default model is ViT-B-32, or that of
            ``config``.
        test_fraction: share of the source's images to test on, if its folders do not divide them; None: half.
        classes: a file of class names by folder, for the source and the targets with its classes.
        names_file: without `classes`, the file beside params.yaml for names that read better than those of the
            folders; None: they are only proposed.

    Raises:
        MissingError, DataError: no such folder, no training images, or more than one source.
        ParamsError: a value that params.yaml would refuse.
    """
    if is_given(images):
        return _of_list(images, encoder=encoder, fraction=test_fraction, classes=classes, names_file=names_file)
    roots = _named(_image_roots(images))
    source, source_root = next(iter(roots.items()))
    sides = division.sides(source_root, fraction=test_fraction)
    test_splits = {source: sides.test_split}
    listings = {source: folder.read(source_root, wanted=sides.wanted)}
    folder.check_several(listings[source], wanted=sides.wanted)
    for name, root in roots.items():
        if name != source:
            test_splits[name] = division.of_target(folder.splits_with_images(root))
            listings[name] = folder.read(root, wanted=[test_splits[name]])
    naming = _naming(listings[source], sides=sides, classes=classes, names_file=names_file)
    sections = _sections(listings, test_splits=test_splits, classes=naming.file)
    if sides.test_fraction is not None:
        sections[source]["test_fraction"] = sides.test_fraction
    notes = [f"{name}: {line}" for name, root in roots.items() for line in [*listings[name].notes, *left_out(root)]]
    notes += _why_xd(listings)
    notes += [note for note in (sides.taken, sides.note, naming.hint) if note]
    return Profile(_text(source, sections, encoder=encoder), notes, naming.names)


def _of_list(
    images: str, *, encoder: Mapping[str, Any], fraction: float | None, classes: str | None, names_file: Path | None
) -> Profile:
    """`own` for a list, shards, or a folder with lists, which is the source and has no targets."""
    classes_file = None if classes is None else _absolute(classes)
    source = listed.source(images, fraction=fraction, classes=classes_file)
    names = dict(zip(source.class_names, proposed(source.class_names), strict=True))
    hint = ""
    section = {"role": "source", **source.section, "template": TEMPLATE}
    is_named = classes is not None or names == {name: name for name in names}
    if not is_named:
        hint = _hint(names, named=source.class_names, names_file=names_file)
    if names_file is not None and not is_named:
        section["class_names"] = names_file.name
    else:
        names = {}
    name = _name(Path(images).resolve().with_suffix(""))
    text = _text(name, {name: section}, encoder=encoder)
    return Profile(text, [note for note in (*source.notes, hint) if note], names)


def _text(source: str, sections: Mapping[str, object], *, encoder: Mapping[str, Any]) -> str:
    """The text of params.yaml, which wsoup itself can read."""
    values = {"source": source, "encoder": _encoder(encoder), "datasets": sections}
    text = filled(template("own"), values)
    parse_params(parse_yaml(text, origin="wsoup profile own"), origin="wsoup profile own")
    return text


def _why_xd(listings: Mapping[str, Listing]) -> list[str]:
    """A line for each target that is taken for one of other classes; the first listing is the source."""
    source, *targets = listings
    lines = []
    for name in targets:
        why = roles.why_other(listings[name].class_names, source_names=listings[source].class_names)
        if why:
            lines.append(f"{name}: role xd (other classes), since {why}")
    return lines


class _Naming(NamedTuple):
    """Where class names come from.

    Attributes:
        file: a file of names, as section datasets has it; None: names of folders, or classnames.txt.
        hint: a line about class names, or "".
        names: as in `Profile`.
    """

    file: str | None = None
    hint: str = ""
    names: Mapping[str, str] = MappingProxyType({})


def _naming(source: Listing, *, sides: Sides, classes: str | None, names_file: Path | None) -> _Naming:
    """The user's names, or those that `wsoup try` would use, in a new file if there is to be one."""
    if classes is not None:
        folder.read(source.root, wanted=sides.wanted, class_names=classes)  # raises if a class has no line
        return _Naming(file=_absolute(classes))
    names = _better_names(source, wanted=sides.wanted)
    if not names:
        return _Naming()
    hint = _hint(names, named=source.class_names, names_file=names_file)
    if names_file is None:
        return _Naming(hint=hint)
    # Only the name: it lies beside params.yaml, to which all paths in there are relative.
    return _Naming(names_file.name, hint, names)


def _better_names(source: Listing, *, wanted: Collection[str]) -> dict[str, str]:
    """Class name by folder, as `wsoup try` proposes them; empty if the folders' names, or classnames.txt, will do."""
    if (Path(source.root) / "classnames.txt").exists():
        return {}
    folders = folder.class_folders(source.root, wanted=wanted)
    names = proposed(folders)
    if names == source.class_names:
        return {}
    return dict(zip(folders, names, strict=True))


def _hint(names: Mapping[str, str], *, named: Sequence[str], names_file: Path | None) -> str:
    """A line about names (by folder) where the pipeline would use others."""
    differing = {}
    for (place, name), usual in zip(names.items(), named, strict=True):
        if name != usual:
            differing[place] = name
    better = changes(differing)
    if names_file is None:
        return f"class names that may read better: {better}; put them into a file for --classes"
    return f"classes are named {better}; {names_file} has all names, for others edit it before the first `dvc repro`"


def _sections(
    listings: Mapping[str, Listing], *, test_splits: Mapping[str, str], classes: str | None
) -> dict[str, dict[str, object]]:
    """Section datasets; the first one is the source. DVC watches the folders of images themselves."""
    sections: dict[str, dict[str, object]] = {}
    source, *_ = listings
    for name, listing in listings.items():
        same = listing.class_names == listings[source].class_names
        role = "dg" if same else "xd"
        if name == source:
            role = "source"
        sections[name] = {"role": role, "watch": listing.root, "template": TEMPLATE, "verify": True}
        if test_splits[name] != "test":
            sections[name]["test_split"] = test_splits[name]
        if classes is not None and same:
            sections[name]["class_names"] = classes
    return sections


def _image_roots(images: str) -> list[Path]:
    """The folders of datasets; the source comes first, which is the only one, or else the one with train/."""
    base = require_folder(images)
    if shape_of(base).splits:
        return [base]
    inner = [base / name for name in subfolders(base)]
    if not any(shape_of(path).splits for path in inner):
        return [base]
    sources = [path for path in inner if "train" in shape_of(path).splits]
    if len(sources) != 1:
        names = "none"
        if sources:
            names = f"{len(sources)}: {', '.join(path.name for path in sources)}"
        raise DataError(
            f"{images} must hold <class>/<image>, or train/<class>/<image> and test/<class>/<image>, or folders of "
            f"which exactly one has train/ (found {names}) and is the source; name the source's folder alone, or move "
            "the others elsewhere"
        )
    return sources + [path for path in inner if path != sources[0] and subfolders(path)]


def _named(folders: Sequence[Path]) -> dict[str, str]:
    """The folder of each dataset by the dataset's name, in order; DataError if two folders would share a name."""
    folder_of: dict[str, Path] = {}
    for place in folders:
        name = _name(place.resolve())
        if name in folder_of:
            raise DataError(
                f"folders {str(folder_of[name])!r} and {str(place)!r} would both be dataset {name!r} of params.yaml; "
                "rename one, or move it elsewhere"
            )
        folder_of[name] = place
    return {name: str(place.resolve()) for name, place in folder_of.items()}


def _name(root: Path) -> str:
    """A dataset's name, made from a folder's: letters and digits of any script, dash and underscore."""
    name = ""
    for letter in unicodedata.normalize("NFC", root.name):
        is_allowed = letter in "-_" or unicodedata.category(letter)[0] in "LMN"
        name += letter if is_allowed else "_"
    # Names in params.yaml begin with a letter or a digit.
    while name and unicodedata.category(name[0])[0] not in "LN":
        name = name[1:]
    return name or "images"


def _encoder(given: Mapping[str, Any]) -> dict[str, Any]:
    """Section encoder, with whole paths; a key that is missing means the model's default."""
    config = given.get("config")
    model = given.get("model")
    if model is None:
        # A config names its model by its file's name.
        model = MODEL if config is None else Path(config).stem
    values: dict[str, Any] = {"model": model}
    if not model.startswith(("hf-hub:", "local-dir:")):  # which come with their weights
        if not given["pretrained"]:
            raise ParamsError("--pretrained is empty, which would mean random weights: give a tag or a file")
        values["pretrained"] = _absolute(given["pretrained"])
    weights = EncoderParams.model_construct(**values).weights_file  # the whole params.yaml is checked at the end
    if config is not None:
        values["config"] = _absolute(config)
    # These lists are not last, since DVC would lose a comment that follows a list.
    for key in ("image_mean", "image_std"):
        if key in given:
            values[key] = list(given[key])
    if "interpolation" in given:
        values["interpolation"] = given["interpolation"]
    values["precision"] = "fp32"
    values["watch"] = _watched(weights, config=config)
    return values


def _watched(weights: Path | None, *, config: str | None) -> str:
    """What DVC watches for the encoder: the weights file, or the folder that also holds its config."""
    if weights is None:
        # DVC needs a path that exists, and a tag's weights are not in a file of the user's.
        return NOTHING_TO_WATCH
    if config is None:
        return str(weights)
    folder = Path(config).resolve().parent
    if folder != weights.resolve().parent:
        raise ParamsError(
            f"--config {config} and --pretrained {weights} lie in different folders; put both into one, which DVC "
            "watches for changes"
        )
    return str(folder)


def _absolute(name: str) -> str:
    """The absolute path of a file, so that copies of the folder (DVC experiments) find it too; a tag as it is."""
    return str(Path(name).resolve()) if Path(name).exists() else name
