"""A verdict in words: who is ahead, by how many points, and whether that may be noise.

Every sentence about a difference is made here, from the verdict whose numbers it prints. An interval's end is never
rounded onto zero: whether zero lies inside is what the verdict says. A verdict near its border is said to be one: a few
images more, or another processor, would turn it.
"""

from wsoup.statistics.noise import Verdict

ZERO = 1e-9
"""Points below which a difference is none: means of equal counts may differ in their last bits."""
DIGITS = 4
"""Most digits after the point."""
NEAR = 0.1
"""A verdict is near its border if zero lies closer to an end of the interval than this share of the interval's half."""


def is_equal(gain: Verdict) -> bool:
    """Whether two rows have the same accuracy."""
    return abs(gain.mean) < ZERO


def is_near(gain: Verdict) -> bool:
    """Whether zero lies just inside or just outside the interval.

    >>> is_near(Verdict(2.7, 0.1, 5.3, p=0.04, level=0.05, word="better"))
    True
    """
    if is_equal(gain):
        return False
    half = (gain.high - gain.low) / 2
    return min(abs(gain.low), abs(gain.high)) < NEAR * half


def ahead(first: str, second: str, gain: Verdict) -> str:
    """Who is ahead, in a sentence: ``The 80 templates are better than the soup by 2.8 points [0.01, 5.6].``

    Args:
        first, second: the rows within a sentence, such as "the soup"; "it" is a subject that was named before.
        gain: of the first over the second.
    """
    if is_equal(gain):
        return f"{_capital(first)} and {second} are equal: 0.0 points {interval(gain)}."
    winner = first
    loser = second
    low = gain.low
    high = gain.high
    if gain.mean < 0:
        winner = second
        loser = first
        low = -gain.high
        high = -gain.low
    by = f"by {magnitude(gain.mean)} points [{_signed_if_negative(low)}, {_signed_if_negative(high)}]"
    subject = f"{_capital(winner)} {is_or_are(winner)}"
    if gain.sure and is_near(gain):
        return f"{subject} better than {loser} {by}, just more than noise."
    if gain.sure:
        return f"{subject} better than {loser} {by}."
    return f"{subject} ahead of {loser} {by}, {_may_be_noise(gain)}."


def in_words(gain: Verdict) -> str:
    """A gain, its interval and what they mean: ``+4.1 points [+1.9, +6.3], more than noise``."""
    points = f"{signed(gain.mean)} points {interval(gain)}"
    if is_equal(gain):
        return f"{points}, no difference"
    if not gain.sure:
        return f"{points}, {_may_be_noise(gain)}"
    more = "just more than noise" if is_near(gain) else "more than noise"
    if gain.mean < 0:
        return f"{points}, worse by {more}"
    return f"{points}, {more}"


def in_short(gain: Verdict) -> str:
    """The same where several stand in one sentence: ``+1.8 [+0.5, +3.1], better``; ``.., no sure difference``."""
    if is_equal(gain):
        return "0.0, no difference"
    points = f"{signed(gain.mean)} {interval(gain)}"
    if not gain.sure and is_near(gain):
        return f"{points}, just within noise"
    if not gain.sure:
        return f"{points}, no sure difference"
    just = "just " if is_near(gain) else ""
    return f"{points}, {just}{gain.word}"


def worded(gain: Verdict) -> str:
    """Better, worse, noise or equal; ``better (just)`` near the border."""
    if is_equal(gain):
        return "equal"
    if is_near(gain):
        return f"{gain.word} (just)"
    return gain.word


def interval(gain: Verdict) -> str:
    """``[+0.5, +3.1]``."""
    return f"[{signed(gain.low)}, {signed(gain.high)}]"


def signed(value: float) -> str:
    """A difference with its sign, and with as many digits as tell it from zero.

    >>> signed(1.25), signed(-0.04), signed(0.00001), signed(0)
    ('+1.2', '-0.04', '+0.0001', '0.0')
    """
    if abs(value) < ZERO:
        return "0.0"
    sign = "-" if value < 0 else "+"
    return f"{sign}{magnitude(value)}"


def magnitude(value: float) -> str:
    """The size of a difference; only none at all is shown as zero."""
    size = abs(value)
    if size < ZERO:
        return "0.0"
    for digits in range(1, DIGITS + 1):
        shown = f"{size:.{digits}f}"
        if float(shown) > 0:
            return shown
    return f"{10.0**-DIGITS:.{DIGITS}f}"


def is_or_are(subject: str) -> str:
    """The verb of a row: ``the 80 templates are``, ``the class means are``, ``the soup is``."""
    return "are" if _is_plural(subject) else "is"


def get_or_gets(subject: str) -> str:
    """Another verb of a row: ``class means get``, ``the soup gets``."""
    return "get" if _is_plural(subject) else "gets"


def _is_plural(row: str) -> bool:
    """Whether the name of a row is a plural: of a soup of random words the soup is the subject."""
    return row.endswith(("templates", "means"))


def _may_be_noise(gain: Verdict) -> str:
    """The end of a sentence about a difference that is not sure."""
    if is_near(gain):
        return "just within noise"
    return "which may be noise"


def _signed_if_negative(value: float) -> str:
    """An end of an interval whose direction the sentence has said."""
    return signed(value).removeprefix("+")


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
