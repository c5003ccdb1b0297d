"""GPT descriptors: ``{class: [descriptor, ...]}`` files as published with classification by description.

Menon & Vondrick 2023; sachit-menon/classify_by_description_release, descriptors/.

There are two differences unless a dataset's `gpt_wording` is ``code``: a descriptor's final period becomes the prompt's
(1 of 5,800 in ImageNet, 1 of 732 in Caltech, 1 of 499 in Food: "etc.", theirs "etc.."), and an empty descriptor or a
class without descriptors (5 in Food) gives the bare class name (theirs "..., which has .").
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from wsoup.base.errors import MissingError, PoolError, shown_value
from wsoup.core.prompts import bare
from wsoup.disk.files import reason_of, regular_file
from wsoup.search.pools.wording import sentence


def read_descriptors(path: str | Path, *, wording: str | None = None) -> dict[str, list[str]]:
    """Read a GPT-descriptor file: class -> descriptors worded by `sentence`, including repetitions.

    Args:
        path: the file.
        wording: ``code`` for the authors' endings; ``sentences`` for texts as they are; else texts are bare, and empty
            ones are left out.

    Raises:
        MissingError: no such file.
        PoolError: not a JSON object of class to list of texts; without a wording, whole sentences.
    """
    try:
        by_class = _checked(path)
    except FileNotFoundError:
        raise MissingError(f"{path} does not exist; correct the path of this dataset's texts in params.yaml") from None
    except (ValueError, RecursionError, OSError) as error:
        raise PoolError(
            f"{path} is not a GPT-descriptor file ({reason_of(error)}); expected {{class: [descriptor, ...]}}"
        ) from None
    if wording is None:
        _check_no_sentences(by_class, path=path)
    worded = {}
    for name, texts in by_class.items():
        if wording == "sentences":
            worded[name] = [" ".join(text.split()) for text in texts if text.strip()]
        elif wording == "code":
            worded[name] = [sentence(text, wording=wording) for text in texts or [""]]
        else:
            worded[name] = [sentence(text) for text in texts if bare(text)]
    return worded


def _check_no_sentences(by_class: Mapping[str, Sequence[str]], *, path: str | Path) -> None:
    """Refuse whole sentences, as CuPL's: after a class name, "which has The cat is ..." is no description."""
    texts: list[str] = []
    for of_class in by_class.values():
        texts += [text.strip() for text in of_class]
    sentences = [text for text in texts if text[:1].isupper() and text.endswith((".", "!", "?"))]
    if 2 * len(sentences) > len(texts):
        raise PoolError(
            f"{path} holds whole sentences, as CuPL's files do, and not descriptors: {shown_value(sentences[0])}; for "
            "the GPT rows set datasets.<name>.gpt_wording: sentences, which uses them as they are (text, if each does "
            "follow a class name); under candidates name another file"
        )


def _checked(path: str | Path) -> dict[str, list[str]]:
    """The file's content; ValueError unless it is a JSON object of class to list of texts."""
    regular_file(str(path))  # a FIFO would block
    content = json.loads(Path(path).read_text(encoding="utf-8-sig"), object_pairs_hook=each_once)
    if not isinstance(content, dict):
        raise ValueError("not an object")
    for texts in content.values():
        is_list_of_texts = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
        if not is_list_of_texts:
            raise ValueError("a class does not hold a list of texts")
    # JSON may hold half a surrogate pair, which no text file could.
    json.dumps(content, ensure_ascii=False).encode()
    return content


def each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object; ValueError for a key that appears twice, of which Python would take the last."""
    counts = Counter(key for key, _ in pairs)
    for key, count in counts.items():
        if count > 1:
            raise ValueError(f"{key!r} appears twice")
    return dict(pairs)
