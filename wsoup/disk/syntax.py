"""What Python code means, as a digest of its syntax tree without what no result depends on.

Left out are comments, docstrings, formatting, the words of errors, and how a function calls its variables. A variable
is a number instead, in the order of a walk through its function. Only a name that the function itself assigns, and that
stands nowhere in it but as a variable, gets one: every use of it inside is then the function's own, so two functions
with the same tree differ in nothing but such names. All others stay: those of arguments, which callers may write, of
attributes, inner functions and imports, and of what lies outside.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Set

ERRORS = "wsoup.base.errors"
"""The module of the errors: text that they are given is words, whether they are raised at once or returned."""
SEE_NAMES = frozenset({"_getframe", "currentframe", "dir", "eval", "exec", "locals", "vars"})
"""Functions that may see how variables are called; f"{x=}" does, too, and its tree holds the name as text."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
OTHER_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.comprehension)
"""What assigns in a scope of its own; `:=` in a comprehension does not."""
NO_NAMES = (ast.Attribute, ast.keyword, ast.Constant)
"""What holds text that names nothing in a scope."""


def meaning(tree: ast.Module) -> str:
    """The digest of a module, whose tree is changed by that.

    >>> def digest(text): return meaning(ast.parse(text))
    >>> digest("x = 1  # one") == digest("'''One.'''\\nx = (1)"), digest("x = 1") == digest("x = 2")
    (True, False)
    >>> digest("def f(n):\\n    m = 2 * n\\n    return m") == digest("def f(n):\\n    twice = 2 * n\\n    return twice")
    True
    """
    for function in _functions(tree.body):
        _number_variables(function)
    return short_digest(repr(_plain(tree, errors=_error_classes(tree))))


def short_digest(text: str) -> str:
    """The first 16 hex digits of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(node: object, *, errors: Set[str]) -> object:
    """A syntax tree as nested lists. Fields that are empty are left out, since they differ by version of Python."""
    if isinstance(node, ast.AST):
        if isinstance(node, ast.Raise | ast.Call):
            _forget_words(node, errors=errors)
        plain: list[object] = [node.__class__.__name__]
        for field in node._fields:
            value = getattr(node, field, None)
            if value is not None and value != []:
                plain.append(field)
                plain.append(_plain(value, errors=errors))
        return plain
    if isinstance(node, list):
        return [_plain(part, errors=errors) for part in node if not _is_docstring(part)]
    return node


def _is_docstring(node: object) -> bool:
    """Whether a statement is only a string: the docstring of a module, a class, a function or an attribute."""
    return isinstance(node, ast.Expr) and _is_string(node.value)


def _is_string(node: ast.expr) -> bool:
    """Whether an expression is a string, which may hold others."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return isinstance(node, ast.JoinedStr)


# ------------------------------------------------------------------------------------------------------ words of errors


def _error_classes(tree: ast.Module) -> frozenset[str]:
    """What a module calls the errors that it imports at its top."""
    names: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == ERRORS:
            names.update(alias.asname or alias.name for alias in statement.names if alias.name.endswith("Error"))
    return frozenset(names)


def _forget_words(node: ast.Raise | ast.Call, *, errors: Set[str]) -> None:
    """Take the strings out of a call that is raised, or that makes an error."""
    call: ast.expr | None = None
    if isinstance(node, ast.Raise):
        call = node.exc
    elif isinstance(node.func, ast.Name) and node.func.id in errors:
        call = node
    if isinstance(call, ast.Call):
        call.args = [part for part in call.args if not _is_string(part)]


# -------------------------------------------------------------------------------------------------- names of variables


def _functions(statements: Iterable[ast.AST]) -> Iterator[Function]:
    """Functions and methods that are in no other function."""
    for statement in statements:
        if isinstance(statement, Function):
            yield statement
            continue
        for part in ("body", "handlers", "orelse", "finalbody", "cases"):
            yield from _functions(getattr(statement, part, ()))


def _number_variables(function: Function) -> None:
    """Put numbers in the place of the names that a function assigns, wherever in its body they stand."""
    names: list[ast.Name] = []
    assigned: set[str] = set()
    # What stands as text: names of arguments, inner functions, imports and captures, and those of `global`.
    text: set[str] = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    # Each part with whether it is in the scope of the function itself; grows while it is gone through.
    parts: list[tuple[ast.AST, bool]] = [(statement, True) for statement in function.body]
    for node, is_own in parts:
        if isinstance(node, ast.Name):
            if node.id in SEE_NAMES:
                return
            names.append(node)
            if is_own and isinstance(node.ctx, ast.Store):
                assigned.add(node.id)
            continue
        if isinstance(node, ast.ClassDef) or (isinstance(node, ast.Attribute) and node.attr in SEE_NAMES):
            # What the body of a class assigns are attributes, which have other rules of scope.
            return
        is_own = is_own and not isinstance(node, OTHER_SCOPES)
        for field in node._fields:
            value = getattr(node, field, None)
            for part in value if isinstance(value, list) else (value,):
                if isinstance(part, ast.AST):
                    parts.append((part, is_own))
                elif isinstance(part, str) and not isinstance(node, NO_NAMES):
                    # An import of a.b assigns a.
                    text.add(part.partition(".")[0])
    variables = assigned - text
    numbers: dict[str, int] = {}
    for name in names:
        # Python itself knows some names with two underscores, such as __class__.
        if name.id in variables and not name.id.startswith("__"):
            # No identifier is a number, so it is no other name.
            name.id = numbers.setdefault(name.id, len(numbers))  # type: ignore[assignment]
