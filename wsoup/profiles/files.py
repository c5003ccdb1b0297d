"""params.yaml as text: templates, values filled in with comments kept, writing it to a file, and that of the paper.

Lists and sections are in block style, without quotes, null or long lines, because DVC's writer writes them so: `dvc exp
run -S` then changes the lines of the values set and no other. After a list comes a key at once: what follows it, a
comment or an empty line, DVC would lose with the old list.
"""

import io
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from ruamel.yaml import YAML, RoundTripRepresenter, ScalarNode

from wsoup.base import project
from wsoup.base.errors import ParamsError
from wsoup.check.whole import covers
from wsoup.datasets.paper import PAPER
from wsoup.disk.store import write_bytes
from wsoup.paper.settings import Settings
from wsoup.paper.tables import ENCODERS, single_texts
from wsoup.params.reading import parse_yaml
from wsoup.runtime.git import git
from wsoup.runtime.processor import has_fast_bf16
from wsoup.search.rank.lists import texts_of

DATA = project.file("data")
FOLDER = DATA / "profiles"
SCHEMA = "# yaml-language-server: $schema={}params.schema.json\n"
"""The first line of every params.yaml, for editors, which look beside the file."""
GROUPS = ("core", "few-shot", "diversity", "parameter-efficiency", "landscape", "all")
"""Values of `--methods`: the four methods that most people want, a table or figure of the paper, or everything."""
LANDSCAPES = ("soft_random", "soft_word_diverse")
"""Methods of the paper's loss landscape."""
TOY_HEAD = """\
# The toy world with more finetuned methods (`wsoup profile demo --methods {group}`): those of data/toy/methods.yaml.
# All of them take about an hour on two cores.
"""
TOY_ITERATIONS = 150
DESCRIPTOR_SOUPS = ("soups.descriptor", "soups.descriptor_sample")
"""Keys removed from the template if there are no descriptors."""
FAST_BF16 = "# fp32 | bf16 (fast on this processor; docs/performance.md) |"
"""In the comment of `encoder.precision`."""
NEEDS = """\
the paper's descriptors are needed: --gpt-descriptors DIR with the files of gpt_descriptors/ in \
github.com/Chris210634/word_soups (first published in sachit-menon/classify_by_description_release): \
descriptors_imagenet.json is the pool of 4,227 that descriptor soups and random descriptors are drawn from, and each \
dataset's own file (descriptors_pets.json, ...) makes its GPT rows; or --gpt-descriptors none, which leaves out the \
rows GPT centroids, GPT score mean, Random descriptors, Descriptor soup (all with their offset trick) and the upper \
bound"""
WITHOUT = """\
# The paper's setting (arXiv 2311.13612) without descriptors, made by `wsoup profile paper --gpt-descriptors none`: the
# rows GPT centroids, GPT score mean, Random descriptors, Descriptor soup (all with their offset trick) and the upper
# bound are left out, and Waffle's characters are not drawn from the authors' pool.
"""


def template(name: str) -> str:
    """A params.yaml of data/profiles; ``demo`` is the toy world's and is used as it is, others go through `filled`."""
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return text.replace(SCHEMA.format("../"), SCHEMA.format("data/"), 1)


def filled(text: str, values: Mapping[str, Any], *, head: str | None = None) -> str:
    """Set values in one of wsoup's own params.yaml; comments and other sections stay as they are.

    Args:
        text: the params.yaml.
        values: dotted key -> new value; None removes the key.
        head: comment lines that replace the first ones.
    """
    for path, value in values.items():
        *outer, key = path.split(".")
        # Only the section goes through the parser, and every other byte of the file stays as it is.
        start, stop = _section(text, path.partition(".")[0])
        yaml = YAML()
        yaml.Representer = _Representer
        yaml.preserve_quotes = True  # and lines are broken where DVC breaks them
        document = yaml.load(text[start:stop])
        node = document
        for name in outer:
            node = node[name]
        if value is None:
            del node[key]
        else:
            node[key] = value
        out = io.StringIO()
        yaml.dump(document, out)
        text = text[:start] + out.getvalue() + text[stop:]
    if head is None:
        return text
    first_lines = SCHEMA.format("data/") + head
    # A function, because `re.sub` would take a backslash in the text for an escape.
    return re.sub(r"\A(#.*\n)+", lambda _: first_lines, text)


class _Representer(RoundTripRepresenter):
    """Writes numbers that YAML 1.1 reads as numbers too: without a point, ``1e-05`` is a text to PyYAML."""

    def represent_float(self, data: float) -> ScalarNode:
        """As YAML 1.1 writes it: 1.0e-05."""
        text = repr(data)
        if "." not in text:
            text = text.replace("e", ".0e", 1)
        return self.represent_scalar("tag:yaml.org,2002:float", text)


_Representer.add_representer(float, _Representer.represent_float)


def _section(text: str, name: str) -> tuple[int, int]:
    """Where a section begins and ends, without the empty lines and comments before the next one."""
    start = text.index(f"\n{name}:") + 1
    # A dash belongs to the section: DVC's writer does not indent the items of a list.
    after = re.compile(r"(?m)^[^\s#-]").search(text, start + 1)
    stop = after.start() if after else len(text)
    section = re.sub(r"(?m)(^[ \t]*(#.*)?\n)*\Z", "", text[start:stop])
    return start, start + len(section)


def unchanged(out: Path, *, text: str) -> bool:
    """Whether a file has nothing of the user's: it is this profile, or the params.yaml of a fresh clone."""
    return out.is_file() and out.read_bytes() in (template("demo").encode(), text.encode())


def write(text: str, *, out: Path) -> list[str]:
    """Write a profile to `out` atomically; returns one line on each thing done besides.

    Folders of images inside the project that git would offer to add go into .gitignore: DVC reads them in place.
    """
    write_bytes(out, text.encode())
    ignored = _ignore(text, folder=out.resolve().parent)
    if not ignored:
        return []
    return [f".gitignore names {', '.join(ignored)}: images stay out of git"]


def _ignore(text: str, *, folder: Path) -> list[str]:
    """Add image folders below `folder` to its .gitignore if `git add` would take any of their files."""
    datasets = parse_yaml(text, origin="params.yaml")["datasets"]
    new = []
    for dataset in datasets.values():
        root = Path(dataset.get("root", dataset["watch"])).resolve()
        if folder not in root.parents:
            continue
        inside = root.relative_to(folder).as_posix()
        # Git's own list, so that a folder whose files are ignored or tracked already gets no line.
        if git("ls-files", "--others", "--exclude-standard", "--directory", "--", inside, folder=folder):
            new.append(f"/{inside}/")
    if new:
        file = folder / ".gitignore"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        lines += new
        content = "".join(f"{line}\n" for line in lines)
        write_bytes(file, content.encode())
    return new


def methods_of(group: str, *, world: str = "paper", soups: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    """Section finetune.methods of one of `GROUPS`.

    Args:
        group: one of `GROUPS`.
        world: paper, or toy: data/<world>/methods.yaml.
        soups: leave out methods that need any other soup; None keeps all.

    Raises:
        ParamsError: no such group.
    """
    if group not in GROUPS:
        raise ParamsError(f"--methods {group!r} must be one of {', '.join(GROUPS)}")
    chosen = {}
    content = (DATA / world / "methods.yaml").read_text(encoding="utf-8")
    for name, method in yaml.safe_load(content).items():
        groups = method.pop("group")
        soup = method["soup"]
        is_in_group = group == "all" or group in groups
        has_soup = soups is None or soup == "class_name" or soup in soups
        if is_in_group and has_soup:
            chosen[name] = method
        if group not in ("diversity", "all"):  # the figure of accuracy during training is theirs
            method.pop("snapshots", None)
    return chosen


def demo(group: str | None = None) -> str:
    """The toy world's params.yaml; with one of `GROUPS`, those finetuned methods, trained for longer."""
    if group is None:
        return template("demo")
    methods = methods_of(group, world="toy")
    values = {
        "finetune.iterations": TOY_ITERATIONS,
        "finetune.methods": methods,
        "landscape.methods": [name for name in LANDSCAPES if name in methods],
    }
    return filled(template("demo"), values, head=TOY_HEAD.format(group=group))


def _template_of_paper() -> str:
    """The paper's template; where this machine multiplies bf16 fast, the comment of `encoder.precision` says so."""
    text = template("paper")
    if not has_fast_bf16():
        return text
    return text.replace("# fp32 | bf16 |", FAST_BF16, 1)


@dataclass(frozen=True)
class Paper:
    """The paper's params.yaml, by the options of `wsoup profile paper`; no file needs to be there yet.

    Attributes:
        data_root: the folder that holds CoOp's folders.
        gpt_descriptors: folder of ``descriptors_*.json``; None leaves out all rows that need them.
        methods: one of `GROUPS`.
        source: one of the paper's datasets with training images, or ``laion:FOLDER``, the folder of LAION's images by
            ImageNet class (`wsoup.datasets.coop`).
        words: text file of common words, one per line, wherever it lies: the pool of words, and what the soft
            descriptors of ProDA and the CoOp ensemble start from; None takes wordfreq's and the tokenizer's, and the
            report marks rows that depend on them.
        waffle: the authors' list of Waffle's texts; None makes them of the pools, and the report marks their rows.
        fewshot_pickles: folder with CoOp's ``shot_16-seed_<k>.pkl``, the authors' draws of ImageNet; None draws anew.
        model: open_clip's name of one of the paper's encoders, or of any other, whose rows are marked.
        pretrained: its tag in open_clip, or a weights file; None: the paper's weights for the model.
    """

    data_root: str
    gpt_descriptors: str | None = None
    methods: str = "core"
    source: str = "imagenet"
    words: str | None = None
    waffle: str | None = None
    fewshot_pickles: str | None = None
    model: str | None = None
    pretrained: str | None = None

    def text(self) -> str:
        """The file; raises ParamsError for an unknown source, group or model, or options that do not fit together."""
        gpt = self.gpt_descriptors
        datasets = self._datasets()
        soups = ["word", "word_curve"]
        if gpt is not None:
            soups.append("descriptor")
        source = next(iter(datasets))
        chosen = methods_of(self.methods, soups=soups)
        if self.fewshot_pickles is not None:
            if source != "imagenet":
                raise ParamsError(f"--fewshot-pickles has the authors' draws of imagenet, and --source is {source}")
            datasets[source]["fewshot_pickles"] = self.fewshot_pickles
        values: dict[str, Any] = {
            "source": source,
            "datasets": datasets,
            "finetune.methods": chosen,
            "evaluate.texts": [text for text in single_texts(source) if text],
            "landscape.methods": [name for name in LANDSCAPES if name in chosen],
        }
        if self.words is not None:
            values |= self._words(self.words)
            for method in chosen.values():
                # ProDA and the CoOp ensemble start from words too: from the same list as the pool.
                if method["tune"]["kind"] == "soft_descriptors":
                    method["tune"] = method["tune"] | {"words": self.words}
        values |= self._encoder()
        values |= self._waffle()
        if gpt is None:
            values |= dict.fromkeys(DESCRIPTOR_SOUPS)
            return filled(_template_of_paper(), values, head=WITHOUT)
        values["candidates.descriptors.paths"] = [f"{gpt}/descriptors_imagenet.json"]
        values["candidates.watch"] = gpt
        return filled(_template_of_paper(), values)

    def _encoder(self) -> dict[str, Any]:
        """Values for `filled`: the model and its weights, if they are not the template's."""
        if self.model is None and self.pretrained is None:
            return {}
        model = self.model or ENCODERS[0][0]
        pretrained = self.pretrained
        if pretrained is None:
            tags: dict[str, str] = dict(ENCODERS)
            if model not in tags:
                raise ParamsError(
                    f"--model {model} is not one of the paper's, {', '.join(tags)}: give --pretrained, its tag in "
                    "open_clip or a weights file"
                )
            pretrained = tags[model]
        values: dict[str, Any] = {"encoder.model": model, "encoder.pretrained": pretrained}
        if Path(pretrained).is_file():
            values["encoder.watch"] = pretrained
        return values

    def _waffle(self) -> dict[str, Any]:
        """Values for `filled`: the authors' list of Waffle's texts, which must be where DVC watches descriptors."""
        if self.waffle is None:
            return {}
        watch = self.waffle if self.gpt_descriptors is None else self.gpt_descriptors
        if not covers(watch, self.waffle):
            raise ParamsError(
                f"--waffle {self.waffle} must lie in the folder of --gpt-descriptors, {watch}, which DVC watches: copy "
                "it there"
            )
        return {"candidates.waffle": self.waffle, "candidates.watch": watch}

    @staticmethod
    def _words(path: str) -> dict[str, Any]:
        """Values for `filled`: the whole list of words, with the authors' count if the file does not exist yet."""
        count = Settings.of_paper().pools["words"]["count"]
        if Path(path).is_file():
            count = len(texts_of(path))
        return {"candidates.words.path": path, "candidates.words.watch": path, "candidates.words.count": count}

    def _datasets(self) -> dict[str, dict[str, Any]]:
        """Section datasets, the source first. With another source ImageNet is a target, and its shifts are left out."""
        source, _, laion = self.source.partition(":")
        sources = [name for name, known in PAPER.items() if known.role != "dg"]  # the shifts have test images only
        is_known = source in sources or source == "laion"
        # LAION's images may lie anywhere, and no other source has a folder of its own.
        needs_folder = source == "laion"
        if not is_known or needs_folder != bool(laion):
            raise ParamsError(
                f"--source {self.source!r} is not one of the paper's datasets with training images: "
                f"{', '.join(sources)}; or laion:FOLDER, the folder of LAION's images by ImageNet class"
            )
        of_imagenet = source in ("imagenet", "laion")
        names = [name for name, known in PAPER.items() if of_imagenet or known.role != "dg"]
        sections = {name: self._dataset(name) for name in names}
        if source == "laion":  # which is tested on ImageNet's test images
            sections["laion"] = sections.pop("imagenet") | {"layout": self.source}
        elif source != "imagenet":
            sections["imagenet"]["role"] = "xd"
        # The paper's single texts follow the plain template (the authors' main_crossdataset.alignment.py:74).
        first = sections.pop(source)
        first["role"] = "source"
        if single_texts(source):
            first["template"] = PAPER["imagenet"].template
        return {source: first, **sections}

    def _dataset(self, name: str) -> dict[str, Any]:
        known = PAPER[name]
        # DVC watches the one file that lists the images, not 1.3 million images.
        watched = known.splits or "classnames.txt"
        if name == "fgvc_aircraft":
            watched = "variants.txt"
        section: dict[str, Any] = {
            "role": known.role,
            "layout": f"coop:{name}",
            "root": self.data_root,
            "watch": f"{self.data_root}/{known.folder}/{watched}",
            "template": known.template,
        }
        if known.baseline_template is not None:
            section["baseline_template"] = known.baseline_template
        if self.gpt_descriptors is not None:
            section["gpt_descriptors"] = f"{self.gpt_descriptors}/descriptors_{known.gpt}.json"
            section["gpt_wording"] = known.gpt_wording
        if known.gpt_names:
            section["gpt_names"] = known.gpt_names
        return section
