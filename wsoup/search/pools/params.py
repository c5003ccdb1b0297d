"""Sections `candidates` and `score`: the pools and how they are ranked."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from wsoup.base.arguments import Flag
from wsoup.base.validation import nearest
from wsoup.params.section import Name, Place, PositiveInt, Section

TextCount = Annotated[PositiveInt, Field(le=1_000_000)]
MemberCount = Annotated[PositiveInt, Field(le=10_000)]
Form = Literal["ending", "template"]
ALWAYS = ("words", "descriptors")
"""Pools that every run has, because baselines are drawn from them."""
LISTED_TEMPLATES = ("openai80", "openai7")
"""Lists of templates that come with wsoup (`wsoup.search.candidates.templates`)."""


class WordPoolParams(Section):
    """Words: the most common ones of wordfreq (path null), or the first `count` lines of a text file."""

    path: Place | None = None
    """A text file, one word a line; null: the most common English words (wordfreq)."""
    watch: Place | None = None
    """What DVC watches for `path`, here and for finetuning that starts from words: the file itself, or
    data/nothing_to_watch.txt. null: candidates.watch (a dvc.yaml of before 2026-11-23)."""
    count: TextCount
    """Number of words to take, from the top."""
    period: Flag
    """Whether candidates have the prompt's final period while they are ranked and searched."""


class TextPoolParams(Section):
    """Descriptors or other texts: text files with one per line, or JSON files of {class: [descriptor, ...]}."""

    paths: list[Place]
    """Text files (one per line) or GPT JSON files {class: [descriptor, ...]}; may be empty."""
    period: Flag
    """Whether candidates have the prompt's final period while they are ranked and searched."""
    form: Form = "ending"
    """ending: texts follow the class name; template: each is a whole prompt with one {}, as it stands in its file or in
    a list that comes with wsoup (openai80, openai7)."""

    @model_validator(mode="after")
    def _templates_end_as_they_are(self) -> "TextPoolParams":
        if self.form == "template" and not self.period:
            raise ValueError("period: false does not go with form: template, which ends as it is written; set it true")
        return self


class CandidatesParams(Section):
    """The pools of candidates, and whether they have the prompt's final period while ranked and searched.

    Whatever is evaluated has it. Besides `words` and `descriptors` there may be pools of your own: a name in `pools`,
    and below candidates a section of that name with `paths` and `period`, as `descriptors` has them.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, TextPoolParams] = Field(init=False)
    pools: Annotated[list[Name], Field(max_length=100)]
    """Names of all pools: words, descriptors, and any of your own, each of which is ranked."""
    words: WordPoolParams
    """The pool of words."""
    descriptors: TextPoolParams
    """The pool of descriptors."""
    waffle: Place | None = None
    """A list of Waffle's texts, one a line, to draw from; null: they are made of the pools."""
    watch: Place
    """The file or folder that DVC watches; it must contain all files named by the pools and by gpt_descriptors."""
    on_long_text: Literal["stop", "skip"] = "stop"
    """Whether a text that exceeds the model's context after a class name of the source ends the run or is left out."""

    @model_validator(mode="before")
    @classmethod
    def _only_pools_are_extra(cls, raw: Any) -> Any:
        """A key that is neither known nor a pool is a typo."""
        if not isinstance(raw, Mapping) or not isinstance(raw.get("pools"), list):
            return raw  # which the fields refuse
        listed = raw["pools"]
        for key in raw:
            if key not in cls.model_fields and key not in listed:
                known = list(dict.fromkeys([*cls.model_fields, *map(str, listed)]))
                hint = nearest(str(key), known=known)
                if isinstance(raw[key], Mapping) and "paths" in raw[key]:
                    hint += f", or add {key} to pools"
                raise ValueError(f"{key!r} is neither a key nor in pools; {hint}")
        return raw

    @model_validator(mode="after")
    def _pools_are_there(self) -> "CandidatesParams":
        if len(set(self.pools)) < len(self.pools):
            raise ValueError(f"pools {self.pools} must name each pool once")
        for name in ALWAYS:
            if name not in self.pools:
                raise ValueError(f"pools {self.pools} must name {name}, from which baselines are drawn; add it")
        for name in self.own:
            if name in type(self).model_fields:
                raise ValueError(f"pools: {name!r} is another key of candidates; give the pool another name")
            if name not in self.__pydantic_extra__:
                raise ValueError(f"pools names {name!r}; add candidates.{name} with its paths and period")
            if not self.texts(name).paths:
                raise ValueError(f"{name}.paths is []; name a file of texts there, or take {name} out of pools")
        if self.descriptors.form != "ending":
            raise ValueError(
                "descriptors.form must be ending: baselines draw from it; give templates a pool of their own"
            )
        return self

    @property
    def own(self) -> list[str]:
        """Names of the pools besides `ALWAYS`."""
        return [name for name in self.pools if name not in ALWAYS]

    def texts(self, pool: str) -> TextPoolParams:
        """The section of any pool but `words`."""
        return self.descriptors if pool == "descriptors" else self.__pydantic_extra__[pool]

    def period(self, pool: str) -> bool:
        """The setting `period` of one pool."""
        return self.words.period if pool == "words" else self.texts(pool).period

    def form(self, pool: str) -> Form:
        """Whether texts of a pool follow the class name, or are templates."""
        return "ending" if pool == "words" else self.texts(pool).form

    def files(self, pool: str) -> list[str]:
        """The files that a pool is made of; none for words and templates that come with wsoup or wordfreq."""
        if pool == "words":
            return [self.words.path] if self.words.path else []
        paths = self.texts(pool).paths
        if self.form(pool) == "template":
            return [path for path in paths if path not in LISTED_TEMPLATES]
        return paths


class ScoreParams(Section):
    """How the pools are scored."""

    shard_size: TextCount = 500
    """Candidates in one shard of the resume state."""
    likelihood: list[Name] = Field(default=["words"])
    """Pools with k2, which only soups with `rank_by: count_k2` read; others are counted up to three times as fast."""
