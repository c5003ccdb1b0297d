"""What the code declares and nothing uses: arguments, fields and functions, each with the file to edit.

Read from the text of the code, so that nothing needs to run. Two sections with a key of one name are told apart as far
as annotations say of which class a value is (known_types.py); what is not known counts for both.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from known_types import NOTHING, Types, annotated, arguments, type_of, variables_of
from sources import FUNCTION, trees

from wsoup.params.section import Section


@dataclass(frozen=True)
class Read:
    """An attribute that is read somewhere.

    Attributes:
        name: its name.
        of: the classes of what it may be read of; none where that is not known.
    """

    name: str
    of: Types


def imports_of(tree: ast.Module) -> Iterator[tuple[tuple[str, str], str]]:
    """((module, name), what it is called here) of all that a file imports; a module by itself has no name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield (node.module or "", alias.name), alias.asname or alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.name, ""), alias.asname or alias.name


def of_rooms(*rooms: str) -> Iterator[tuple[Path, ast.Module]]:
    """The files of some rooms."""
    for path, tree in trees().items():
        if path.parts[0] == "wsoup" and path.parts[1].removesuffix(".py") in rooms:
            yield path, tree


# ---------------------------------------------------------------------------------------------------------- arguments


def ignored_arguments(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(function, argument) for each argument that its function never reads; callbacks take what their callers give."""
    for node in ast.walk(tree):
        if not isinstance(node, FUNCTION):
            continue
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        read = {inner.id for part in node.body for inner in ast.walk(part) if isinstance(inner, ast.Name)}
        for argument in given:
            is_hidden = argument.arg.startswith("_") or argument.arg in ("self", "cls")
            if argument.arg not in read and not is_hidden and not _is_declaration(node):
                yield node.name, argument.arg


def _is_declaration(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function has no body, or one that only raises or documents."""
    return all(isinstance(part, ast.Expr | ast.Raise | ast.Pass) for part in node.body)


# ------------------------------------------------------------------------------------------------------------- fields


@cache
def reads() -> frozenset[Read]:
    """Every attribute that is read, but by validators: what only checks a value does not use it."""
    found: set[Read] = set()
    for path, tree in trees().items():
        if path.parts[0] == "benchmarks":
            continue
        imported = {name for _, name in imports_of(tree)}
        found |= set(_reads_in(tree, variables={}, others=frozenset(imported)))
    return frozenset(found)


def _reads_in(node: ast.AST, *, variables: Mapping[str, Types], others: frozenset[str]) -> Iterator[Read]:
    """What a part of a file reads.

    Args:
        node: the part.
        variables: the classes of names, as far as they are known.
        others: names that are no sections.
    """
    if isinstance(node, FUNCTION):
        variables = variables_of(node, variables)
        for argument in arguments(node):
            if argument.annotation and not annotated(argument.annotation) and not _may_be_section(argument.annotation):
                others |= {argument.arg}
    elif isinstance(node, ast.ClassDef):
        variables = {**variables, "self": frozenset([node.name]), "cls": frozenset([node.name])}
    called = node.func if isinstance(node, ast.Call) else None
    for part in ast.iter_child_nodes(node):
        if isinstance(part, FUNCTION) and any("validator" in ast.unparse(each) for each in part.decorator_list):
            continue
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load) and part is not called:
            owner = part.value.id if isinstance(part.value, ast.Name) else ""
            if owner not in others:
                yield Read(part.attr, type_of(part.value, variables))
        match part:
            case ast.Call(func=ast.Name(id="getattr"), args=[section, ast.Constant(value=str(name)), *_]):
                yield Read(name, type_of(section, variables))
            case ast.MatchClass(cls=cls, kwd_attrs=names):
                for name in names:
                    yield Read(name, annotated(cls))
        # A class may name one of its keys, such as prompt_key = "tokens".
        if isinstance(node, ast.ClassDef) and isinstance(part, ast.Assign):
            yield from (Read(value, frozenset([node.name])) for value in _texts(part.value))
        yield from _reads_in(part, variables=variables, others=others)


SECTIONS = re.compile(r"Params|Tune|Loss|Soup|Section|Wanted|Average|Any\b|object|Self|Run\b|Search")
"""What an annotation of a section, or of what holds one, has in it."""


def _may_be_section(annotation: ast.expr) -> bool:
    return SECTIONS.search(ast.unparse(annotation)) is not None


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def is_read(field: str, *, classes: set[str]) -> bool:
    """Whether a field is read of one of some classes, or of what may be one."""
    return any(read.name == field and (read.of == NOTHING or read.of & classes) for read in reads())


# ---------------------------------------------------------------------------------------------------------- functions


@dataclass(frozen=True)
class Uses:
    """What one file imports of wsoup and which names it uses.

    Attributes:
        imported: (module, name) -> as what.
        by_part: names that each statement at the top of the file loads, and dotted ones, by what it defines.
        loaded: all of these names.
    """

    imported: dict[tuple[str, str], str]
    by_part: list[tuple[str, set[str]]]
    loaded: set[str]


@cache
def uses() -> dict[Path, Uses]:
    """Of each file."""
    of_files = {}
    for path, tree in trees().items():
        imported = dict(imports_of(tree))
        by_part = [(getattr(part, "name", ""), set(_loaded(part))) for part in tree.body]
        of_files[path] = Uses(imported, by_part, loaded=set().union(*(names for _, names in by_part)))
    return of_files


def _loaded(part: ast.AST) -> Iterator[str]:
    for node in ast.walk(part):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"


def is_used(path: Path, name: str) -> bool:
    """Whether a function or class of a module is used by another file, or by its own outside of itself."""
    module = ".".join(path.with_suffix("").parts)
    package, _, stem = module.rpartition(".")
    for other, file in uses().items():
        is_own = other == path
        spelled = {file.imported.get((module, name)), f"{file.imported.get((package, stem))}.{name}"}
        if is_own:
            spelled.add(name)
        if spelled.isdisjoint(file.loaded):
            continue  # as nearly every file, of whose parts none needs a look
        for defined, loaded in file.by_part:
            if spelled & loaded and not (is_own and defined == name):
                return True
    return False


def unused(room: str) -> list[str]:
    """A sentence for each function and class of a room that nothing uses; a command's decorator uses it."""
    sentences = []
    for path, tree in of_rooms(room):
        for node in tree.body:
            is_named = isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.decorator_list
            if is_named and not node.name.startswith("__") and not is_used(path, node.name):
                sentences.append(f"{path}: nothing uses {node.name}; use it where it belongs, or remove it")
    return sentences


# -------------------------------------------------------------------------------------------------------- params.yaml

BY_ANOTHER_NAME = {
    ("GaussianAverage", "deviation"): "wsoup/finetune/averages.py takes the whole section as arguments",
}
"""Keys that are read and not by their own name, with the place."""


def sections(room: str) -> dict[str, type[Section]]:
    """The sections of params.yaml that a room declares, by the name of their class."""
    for path, tree in of_rooms(room):
        if any(isinstance(node, ast.ImportFrom) and node.module == Section.__module__ for node in tree.body):
            importlib.import_module(".".join(path.with_suffix("").parts))
    declared = {}
    for model in _below(Section):
        if model.__module__.startswith(f"wsoup.{room}."):
            declared[model.__name__] = model
    return declared


def _below(model: type[Section]) -> Iterator[type[Section]]:
    for inner in model.__subclasses__():
        yield inner
        yield from _below(inner)


def unread_keys(room: str) -> list[str]:
    """A sentence for each key of a room's sections that nothing reads."""
    sentences = []
    for name, model in sections(room).items():
        classes = {cls.__name__ for cls in (*model.__mro__, *_below(model))}
        for key in model.model_fields:
            is_known = (name, key) in BY_ANOTHER_NAME
            if not is_known and not is_read(key, classes=classes):
                file = f"{model.__module__.replace('.', '/')}.py"
                sentences.append(
                    f"{file}: the key {key!r} of {name} is declared and nothing reads it; read it where it decides "
                    "(the code that takes the section, from its stage in stages/), or take it out"
                )
    return sentences
