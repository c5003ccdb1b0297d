"""A count and its noun, for sentences."""


def number_of(count: int, noun: str) -> str:
    """A count with its noun, in the plural unless there is one; the noun comes last if there are several words.

    >>> number_of(1, "test image"), number_of(7, "class"), number_of(1200, "image")
    ('1 test image', '7 classes', '1,200 images')
    """
    if count == 1:
        return f"1 {noun}"
    ending = "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{ending}"
