"""Exact fast text encoding: every class with every candidate, beginnings computed once. See `PromptEncoder`."""

from wsoup.prefix.encoder import PromptEncoder

__all__ = ["PromptEncoder"]
