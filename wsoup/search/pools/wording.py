"""The wording of GPT descriptors, so that each follows a class name: "antennae" -> "which is antennae".

It is that of the authors of classification by description (Menon & Vondrick 2023;
sachit-menon/classify_by_description_release, load.py), including their choice by first letters ("which is antennae",
"which candles"), because the paper's results are for these texts: the 4,227 of ImageNet are exactly the authors' pool.
"""

from wsoup.core.prompts import bare

_VERBS = ("has", "often", "typically", "may", "can")


def sentence(descriptor: str, *, wording: str | None = None) -> str:
    """A descriptor worded to follow a class name, as load.py of the source does; bare unless `wording` is ``code``.

    >>> sentence("a long tail"), sentence("antennae"), sentence("can fly"), sentence("used in war"), sentence("wings")
    ('which is a long tail', 'which is antennae', 'which can fly', 'which is used in war', 'which has wings')
    """
    text = bare(descriptor)
    if wording == "code":
        text = descriptor
    if text.startswith(("a", "used")):
        return f"which is {text}"
    if text.startswith(_VERBS):
        return f"which {text}"
    return f"which has {text}"
