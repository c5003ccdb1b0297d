"""A soup in the forms that others read: templates for open_clip, a file for CLIP_benchmark, whole texts, a table.

Each carries the template, the comma and the final period: a member's bare text alone is not what was measured.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

from wsoup.core import prompts
from wsoup.core.disk.cells import defused
from wsoup.core.disk.files import shown
from wsoup.core.errors import ParamsError
from wsoup.soup.soup import Soup

FORMATS = ("open_clip", "clip_benchmark", "text", "csv")
ANY_DATASET = "imagenet1k"
"""The key that CLIP_benchmark falls back to where a dataset has none of its own."""


def export(
    soup: Soup,
    *,
    form: str,
    class_names: Sequence[str] | None = None,
    datasets: Sequence[str] = (ANY_DATASET,),
    template: str | None = None,
) -> str:
    """A soup as text.

    Args:
        soup: the soup.
        form: ``open_clip``: Python source with a list `templates`, for `open_clip.build_zero_shot_classifier`;
            ``clip_benchmark``: JSON for its ``--custom_template_file``; ``text``: one template a line, or one whole
            text for each class and member; ``csv``: the same as a table with the members' counts.
        class_names: for ``text`` and ``csv``.
        datasets: for ``clip_benchmark``, the keys (default: the one that stands for any dataset).
        template: of another dataset (default: the soup's).

    Raises:
        ParamsError: no such form.
    """
    templates = soup.templates(template)
    if form == "open_clip":
        return _python(soup, templates)
    if form == "clip_benchmark":
        # Its classifier fills `{c}` by name.
        by_name = soup.templates(template, place="{c}")
        return json.dumps(dict.fromkeys(datasets, by_name), indent=2, ensure_ascii=False) + "\n"
    if form == "text":
        lines = [text.format(name) for name in class_names for text in templates] if class_names else templates
        broken = next((line for line in lines if len(line.splitlines()) > 1), None)
        if broken is not None:
            raise ParamsError(f"{broken[:80]!r} holds a line break: one text a line would be two; use --format csv")
        return "".join(f"{line}\n" for line in lines)
    if form == "csv":
        return _csv(soup, template=template or soup.template, class_names=class_names)
    raise ParamsError(f"--format {form!r} must be one of {', '.join(FORMATS)}")


def _python(soup: Soup, templates: Sequence[str]) -> str:
    lines = "".join(f"    {text!r},\n" for text in templates)
    made_for = f"{soup.encoder.get('model')} / {soup.encoder.get('pretrained')}"
    about = shown(f"{len(templates)} members, kind {soup.kind}, {soup.drawn_by}, found with {made_for}.")
    return (
        f"# A soup of wsoup: {about}\n"  # of one line, whatever stands in it: what comes after would be run
        "# open_clip.build_zero_shot_classifier(model, tokenizer, classnames, templates)\n"
        f"templates = [\n{lines}]\n"
    )


def _csv(soup: Soup, *, template: str, class_names: Sequence[str] | None) -> str:
    """One row for each member, or for each class and member: member, text, template or class and prompt, counts."""
    file = io.StringIO()
    of_class = ["class", "prompt"] if class_names else ["template"]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["member", "text", *of_class, "n_correct", "n_images"])
    for number, (member, whole) in enumerate(zip(soup.members, soup.templates(template), strict=False), start=1):
        counts = [member.n_correct, member.n_images]
        if class_names is None:
            writer.writerow([number, defused(member.text), defused(whole), *counts])
        else:
            writer.writerows(
                [number, *map(defused, (member.text, name, prompts.prompt(template, name, member.text))), *counts]
                for name in class_names
            )
    return file.getvalue()
