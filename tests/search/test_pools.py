"""Pools: what they contain, in which order, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wsoup.base.errors import MissingError, PoolError
from wsoup.core.prompts import bare
from wsoup.search.candidates import pools
from wsoup.search.pools import lists


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_common_words_come_most_common_first() -> None:
    words = pools.common_words(10_000)
    assert words[:5] == pools.common_words(5) == ["the", "to", "and", "of", "in"]
    assert len(set(words)) == 10_000
    assert all(word.isascii() and word.isalpha() and word.islower() and len(word) > 1 for word in words)
    assert not pools.OFFENSIVE & set(words)
    with pytest.raises(PoolError, match=r"^count is 1000000, but wordfreq has \d+ such words") as error:
        pools.common_words(1_000_000)
    (most,) = re.findall(r"wordfreq has (\d+)", str(error.value))
    assert len(pools.common_words(int(most))) == int(most)


def test_words_are_read_from_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "words.txt", "the\n\nof\nand\nthe end\n")
    assert pools.words_from_file(path, count=3) == ["the", "of", "and"]
    assert pools.words_from_file(path, count=4)[-1] == "the end"
    with pytest.raises(PoolError, match=r"words.txt holds 4 words, candidates.words.count asks for 5; lower it"):
        pools.words_from_file(path, count=5)


def test_descriptors_of_several_files_are_distinct_and_in_order(tmp_path: Path) -> None:
    first = write(tmp_path / "a.json", '{"cat": ["a tail", "claws"], "dog": ["claws", "fur."]}')
    second = write(tmp_path / "b.txt", "which has claws\n\n, which  can fly.\n")
    assert pools.descriptors([first, second]) == [
        "which has claws",
        "which has fur",
        "which is a tail",
        "which can fly",
    ]


def test_a_bare_text_has_no_white_space_or_punctuation_around_it() -> None:
    for text in ("has claws", ", has claws.", " ,, has  claws . ", "has claws. ."):
        assert bare(text) == "has claws"


def test_descriptors_of_a_json_file_are_sorted_with_their_final_period(tmp_path: Path) -> None:
    """As in the authors' list: a space and a comma come before a period, so the longer text wins a tie."""
    path = write(tmp_path / "a.json", '{"cat": ["fur", "claws", "claws, long", "claws that hurt"]}')
    assert pools.descriptors([path]) == [
        "which has claws that hurt",
        "which has claws, long",
        "which has claws",
        "which has fur",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"d.txt is empty; expected one text or more"),
        ("\n \n", r"d.txt is empty"),
        ("red\n\nblue\nred.\n", r"d.txt holds 'red' more than once \(lines 1, 4\); keep each text once"),
        (
            "".join(f"w{i}\nw{i}\n" for i in range(7)),
            r"d.txt holds 'w0' more than once \(lines 1, 2\), .*'w4' more than once \(lines 9, 10\) and 2 more texts",
        ),
    ],
)
def test_an_empty_pool_or_one_with_repetitions_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PoolError, match=message):
        pools.descriptors([write(tmp_path / "d.txt", text)])
    with pytest.raises(PoolError, match=r"candidates.descriptors: no texts in .*d.json"):
        pools.descriptors([write(tmp_path / "d.json", "{}")])


def test_lines_without_a_word_are_no_texts(tmp_path: Path) -> None:
    """What is a comma or a period alone has nothing left when it is bare, and would be the class name alone."""
    path = write(tmp_path / "x.txt", "sharp.\n\n.\n , \nold, red\n")
    assert lists.read_pool(path) == ["sharp", "old, red"]


def test_a_missing_file_or_one_that_is_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"d.txt does not exist; correct its path under candidates in params.yaml"):
        pools.descriptors([tmp_path / "d.txt"])
    (tmp_path / "d.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(PoolError, match=r"d.txt is not UTF-8 text \(byte 3\); save it as UTF-8"):
        pools.descriptors([tmp_path / "d.txt"])


def test_a_written_pool_reads_back(tmp_path: Path) -> None:
    lists.write_pool(tmp_path / "p/words.txt", ["the", "of"])
    assert (tmp_path / "p/words.txt").read_text() == "the\nof\n"
    assert lists.read_pool(tmp_path / "p/words.txt") == ["the", "of"]
    lists.write_pool(tmp_path / "descriptors.txt", pools.descriptors([]))
    assert lists.read_pool(tmp_path / "descriptors.txt") == []
    with pytest.raises(MissingError, match=r"made by stage 'candidates'"):
        lists.read_pool(tmp_path / "none.txt")
