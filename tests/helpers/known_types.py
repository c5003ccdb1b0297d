"""Of which class an expression is, as far as annotations say it without being run: enough to tell sections apart.

A container counts as what it holds: `methods[name]` and `methods.values()` are of the class that `methods` is
annotated with. Classes are known by their names alone.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from sources import FUNCTION, trees

Types = frozenset[str]
NOTHING: Types = frozenset()


@cache
def classes() -> Types:
    """The classes that are declared anywhere."""
    return frozenset(
        node.name for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )


@cache
def aliases() -> Mapping[str, Types]:
    """Name -> classes, of every ``Soups = dict[Name, A | B]`` at the top of a file, whose A may be such a name."""
    written: dict[str, set[str]] = {}
    for tree in trees().values():
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                written[node.targets[0].id] = set(_names(node.value))
    # As often as one is made of another.
    for _ in range(3):
        for names in written.values():
            names |= {inner for name in names & written.keys() for inner in written[name]}
    return {name: frozenset(names & classes()) for name, names in written.items()}


@cache
def returned() -> Mapping[str, Types]:
    """Function -> classes that it returns, where all functions of that name return the same."""
    of_name: dict[str, set[Types]] = defaultdict(set)
    for tree in trees().values():
        for node in tree.body:
            if isinstance(node, FUNCTION):
                of_name[node.name].add(annotated(node.returns))
    return {name: next(iter(types)) for name, types in of_name.items() if len(types) == 1}


def _names(node: ast.AST) -> Iterator[str]:
    """Names in an annotation, also in one that is text."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.isidentifier():
            yield part.value


def annotated(annotation: ast.expr | None) -> Types:
    """The classes that an annotation names."""
    if annotation is None:
        return NOTHING
    types: set[str] = set()
    for name in _names(annotation):
        if name in classes():
            types.add(name)
        types |= aliases().get(name, NOTHING)
    return frozenset(types)


def arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """Those with a name, besides ``*args`` and ``**options``."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


@cache
def attributes() -> Mapping[tuple[str, str], Types]:
    """(class, attribute) -> classes: of fields, of what methods return, of arguments that ``__init__`` keeps."""
    known: dict[tuple[str, str], Types] = defaultdict(frozenset)
    for tree in trees().values():
        for cls in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            for part in cls.body:
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    known[cls.name, part.target.id] |= annotated(part.annotation)
                elif isinstance(part, ast.FunctionDef) and part.name != "__init__":
                    known[cls.name, part.name] |= annotated(part.returns)
                elif isinstance(part, ast.FunctionDef):
                    given = {argument.arg: annotated(argument.annotation) for argument in arguments(part)}
                    for name, value in _kept(part):
                        known[cls.name, name] |= given.get(value, NOTHING)
    return known


def _kept(init: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """(attribute, argument) of each ``self.a = b``."""
    for node in ast.walk(init):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            target = node.targets[0]
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
                yield target.attr, node.value.id


def type_of(node: ast.expr, variables: Mapping[str, Types]) -> Types:
    """The classes that an expression may be of; none where that is not known.

    Args:
        node: the expression.
        variables: what is known of names.
    """
    match node:
        case ast.Name(id=name):
            return variables.get(name, NOTHING)
        case ast.Attribute(value=value, attr=attr):
            of_classes = [attributes().get((cls, attr), NOTHING) for cls in type_of(value, variables)]
            return all_known(of_classes)
        case ast.Subscript(value=value) | ast.Call(func=ast.Attribute(value=value, attr="values" | "items" | "get")):
            return type_of(value, variables)
        case ast.Call(func=ast.Name(id="load" | "parse"), args=[ast.Name(id=name), *_]):
            # Sections of params.yaml: the class that is given has some of those of `Params`.
            return frozenset([name, "Params"]) & classes()
        case ast.Call(func=ast.Name(id=name)):
            return frozenset([name]) & classes() or returned().get(name, NOTHING)
        case ast.Call(func=ast.Attribute() as method):
            return type_of(method, variables)
        case ast.BoolOp(values=values):
            return all_known(type_of(value, variables) for value in values)
        case ast.IfExp(body=body, orelse=orelse):
            return all_known([type_of(body, variables), type_of(orelse, variables)])
    return NOTHING


def all_known(types: Iterable[Types]) -> Types:
    """All of them together; none if any is not known."""
    listed = list(types)
    return frozenset().union(*listed) if all(listed) else NOTHING


def variables_of(function: ast.FunctionDef | ast.AsyncFunctionDef, outer: Mapping[str, Types]) -> dict[str, Types]:
    """What a function's names are: of arguments by annotation, then of what is assigned from these."""
    known = dict(outer)
    for argument in arguments(function):
        if argument.annotation is not None:
            known[argument.arg] = annotated(argument.annotation)
    assigned: dict[str, list[Types]] = defaultdict(list)
    for node in ast.walk(function):
        value: ast.expr | None = None
        if isinstance(node, ast.Assign):
            value = node.value
            targets = node.targets
        elif isinstance(node, ast.For | ast.comprehension):
            value = node.iter
            targets = [node.target]
        elif isinstance(node, FUNCTION) and node is not function:
            # An argument of an inner function may have the name of a variable.
            for argument in arguments(node):
                assigned[argument.arg].append(NOTHING)
        if value is not None:
            for part in (part for target in targets for part in ast.walk(target)):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    assigned[part.id].append(type_of(value, known))
                    known[part.id] = all_known(assigned[part.id])
    return known
