"""Templates that are probably not as their writer meant them: every count depends on them."""

import re


def oddity(template: str) -> str:
    """What is odd at the end of a template, and how it is usually written; "" if nothing is.

    >>> oddity("a photo of a {}.")
    ''
    >>> oddity("a photo of a {}. ")
    "template 'a photo of a {}. ' has white space at an end, which is part of every prompt; write 'a photo of a {}.'"
    """
    usual = re.sub(r"(?:\.\s*)+$", ".", template.strip())
    usual = re.sub(r"\s+\.$", ".", usual)
    usual = re.sub(r"\s{2,}", " ", usual)
    if usual == template:
        return ""
    what = "has spaces or periods that prompts keep"
    if template != template.strip():
        what = "has white space at an end, which is part of every prompt"
    elif template.endswith(".."):
        what = "ends in several periods, of which prompts keep all but one"
    return f"template {template!r} {what}; write {usual!r}"
