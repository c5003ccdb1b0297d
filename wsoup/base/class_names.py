"""Class names as users pass them: a list in label order."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from wsoup.base.arguments import at_the_door, listed
from wsoup.base.errors import DataError, shown_value


def _each_once(names: Sequence[str]) -> Sequence[str]:
    duplicate, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise DataError(f"class_names holds {shown_value(duplicate)} {count} times; give each label a name of its own")
    return names


Label = Annotated[str, Field(max_length=10_000, pattern=r"^\P{Cc}*[^\s\p{Cc}]\P{Cc}*$")]
"""A name on one line that is not blank."""
Names = Annotated[Sequence[Label], BeforeValidator(listed), Field(min_length=1), AfterValidator(_each_once)]


@at_the_door
def checked_names(class_names: Names) -> list[str]:
    """Class names in label order: (C,) strings, each once, none blank; ParamsError or DataError otherwise."""
    return [*class_names]
