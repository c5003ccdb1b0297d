"""The digest of code: what has no meaning is not in it, and what changes a result is.

Python itself judges the counterexamples: each pair of texts is run, and gives two results.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator

import pytest

from wsoup.base import errors
from wsoup.disk import code, syntax

MODULE = '"""A module."""\n\nB = 2\n"""Two."""\n\n\ndef f(n):\n    """Twice n."""\n    return n * B\n'
MODULE += 'def g(n):\n    raise ValueError(f"{n} is bad; expected 2", n)\n'


def digest(text: str) -> str:
    return syntax.meaning(ast.parse(text))


@pytest.mark.parametrize(
    "same",
    [
        MODULE.replace("B = 2", "# The factor.\nB = 2  # two"),
        MODULE.replace("A module.", "Another text."),
        MODULE.replace('    """Twice n."""\n', ""),
        MODULE.replace('"""Two."""\n', ""),
        MODULE.replace("n * B", "(\n        n\n        * B\n    )"),
        MODULE.replace("is bad; expected 2", "is not 2"),
        MODULE.replace('f"{n} is bad', '"It is bad'),
        f"\n\n{MODULE}",
    ],
)
def test_comments_docstrings_formatting_and_the_words_of_errors_have_no_meaning(same):
    assert same != MODULE
    assert digest(same) == digest(MODULE)


@pytest.mark.parametrize(
    "other",
    [
        MODULE.replace("n * B", "n / B"),
        MODULE.replace("B = 2", "B = 2.0"),
        MODULE.replace("B = 2", "B = True"),
        MODULE.replace("f(n)", "f(n=1)"),
        MODULE.replace("n * B", '"n" * B'),
        MODULE.replace("raise ValueError", "raise TypeError"),
        MODULE.replace(", n)", ", -n)"),
    ],
)
def test_operators_constants_and_names_have(other):
    assert other != MODULE
    assert digest(other) != digest(MODULE)


RETURNED = "from wsoup.base.errors import DataError, one_line\n\ndef f(n):\n    return DataError(f'{n} is bad', n)\n"


def test_an_error_that_is_returned_has_no_words_either():
    assert digest(RETURNED) == digest(RETURNED.replace("is bad", "is worse"))
    assert digest(RETURNED) != digest(RETURNED.replace(", n)", ", -n)"))
    imported_as = RETURNED.replace("DataError,", "DataError as Wrong,").replace("return DataError", "return Wrong")
    assert digest(imported_as) == digest(imported_as.replace("is bad", "is worse"))


@pytest.mark.parametrize("made", ["ValueError", "one_line", "text.DataError"])
def test_text_that_another_function_is_given_has_a_meaning(made):
    other = RETURNED.replace("return DataError", f"return {made}")
    assert digest(other) != digest(other.replace("is bad", "is worse"))


def test_what_is_called_an_error_there_is_one():
    named = [value for name, value in vars(errors).items() if name.endswith("Error")]
    assert len(named) > 5
    assert all(issubclass(value, errors.WsoupError) for value in named)


# ------------------------------------------------------------------------------------------------ names of variables


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("def f(n):\n    a = 2 * n\n    return a", {"a": "twice"}),
        ("def f(n):\n    a, b = n, 1\n    a += b\n    return a - b", {"a": "b", "b": "a"}),
        ("def f(n):\n    for a in n:\n        with a as b:\n            del b", {"a": "x", "b": "y"}),
        ("def f(n):\n    a = 1\n    def g():\n        return a\n    return g() + (lambda: a)()", {"a": "x"}),
        ("def f(n):\n    a = [a for a in n]\n    return {a: 1 for b in a}", {"a": "x"}),
        ("class C:\n    def f(self):\n        a = self.a\n        return a(b=a)", {"a": "x"}),
        ("async def f(n):\n    a = await n\n    return [(b := c) for c in a]", {"a": "x", "b": "y"}),
        ("if True:\n    def f(n):\n        a: int = n\n        return f'{a}'", {"a": "x"}),
    ],
)
def test_the_name_of_a_variable_has_no_meaning(text, renamed):
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = renamed.get(node.id, node.id)
    assert ast.unparse(tree) != text
    assert digest(ast.unparse(tree)) == digest(text)


TWO_RESULTS = {
    "a variable for another": (
        "def f():\n    a = 1\n    b = 2\n    return a - b",
        "def f():\n    a = 1\n    b = 2\n    return b - a",
    ),
    "one variable for two": (
        "def f():\n    a = 1\n    b = 2\n    return a + b",
        "def f():\n    a = 1\n    a = 2\n    return a + a",
    ),
    "a global one": ("def f():\n    a = 5\n    return A", "def f():\n    a = 5\n    return a"),
    "two global ones": ("def f():\n    return A", "def f():\n    return B"),
    "global ones beside a comprehension": (
        "def f():\n    return A + sum(A for A in [5])",
        "def f():\n    return B + sum(B for B in [5])",
    ),
    "what a comprehension goes through": (
        "def f():\n    return [A for A in [A]]",
        "def f():\n    return [B for B in [B]]",
    ),
    "global": (
        "def f():\n    global A\n    A = 5\n    return g()\ndef g():\n    return A",
        "def f():\n    global B\n    B = 5\n    return g()\ndef g():\n    return A",
    ),
    "global inside": (
        "def f():\n    A = 5\n    def g():\n        global A\n        return A\n    return g()",
        "def f():\n    B = 5\n    def g():\n        global B\n        return B\n    return g()",
    ),
    "nonlocal": (
        "def f():\n    a = b = 1\n    def g():\n        nonlocal a\n        a = 5\n    g()\n    return a - b",
        "def f():\n    a = b = 1\n    def g():\n        nonlocal b\n        b = 5\n    g()\n    return a - b",
    ),
    "assigned inside another function only": (
        "def f():\n    def g():\n        A = 5\n    g()\n    return A",
        "def f():\n    def g():\n        B = 5\n    g()\n    return B",
    ),
    "assigned inside a lambda only": (
        "def f():\n    (lambda: (A := 5))()\n    return A",
        "def f():\n    (lambda: (B := 5))()\n    return B",
    ),
    "a closure or a variable of its own": (
        "def f():\n    a = 1\n    def g():\n        a = 5\n    g()\n    return a",
        "def f():\n    a = 1\n    def g():\n        nonlocal a\n        a = 5\n    g()\n    return a",
    ),
    "a default, which is evaluated outside": (
        "def f(n=A):\n    A = 5\n    return n",
        "def f(n=B):\n    B = 5\n    return n",
    ),
    "an argument": (
        "def g(a=0, b=0):\n    a = a + 1\n    return a - b\ndef f():\n    return g(a=5)",
        "def g(b=0, a=0):\n    b = b + 1\n    return b - a\ndef f():\n    return g(a=5)",
    ),
    "an argument of a call": (
        "def g(a=0, b=0):\n    return a - b\ndef f():\n    a = 5\n    return g(a=a)",
        "def g(a=0, b=0):\n    return a - b\ndef f():\n    b = 5\n    return g(b=b)",
    ),
    "an attribute": (
        "class C:\n    a = 1\n    b = 2\ndef f():\n    a = C\n    return a.a",
        "class C:\n    a = 1\n    b = 2\ndef f():\n    a = C\n    return a.b",
    ),
    "an attribute of a class inside": (
        "def f():\n    class C:\n        a = 1\n    return hasattr(C, 'a')",
        "def f():\n    class C:\n        b = 1\n    return hasattr(C, 'a')",
    ),
    "the scope that a class does not see": (
        "def f():\n    A = 5\n    class C:\n        x = A\n        A = 6\n    return C.x",
        "def f():\n    B = 5\n    class C:\n        x = B\n        B = 6\n    return C.x",
    ),
    "a name shown": ("def f():\n    a = 1\n    return f'{a=}'", "def f():\n    b = 1\n    return f'{b=}'"),
    "locals": ("def f():\n    a = 1\n    return locals()", "def f():\n    b = 1\n    return locals()"),
    "vars": ("def f():\n    a = 1\n    return vars()", "def f():\n    b = 1\n    return vars()"),
    "dir": ("def f():\n    a = 1\n    return dir()", "def f():\n    b = 1\n    return dir()"),
    "eval": ("def f():\n    A = 5\n    return eval('A')", "def f():\n    B = 5\n    return eval('A')"),
    "a frame": (
        "import sys\ndef f():\n    a = 1\n    return sys._getframe().f_locals",
        "import sys\ndef f():\n    b = 1\n    return sys._getframe().f_locals",
    ),
    "the name of a function inside": (
        "def f():\n    def a(): pass\n    return a.__name__",
        "def f():\n    def b(): pass\n    return b.__name__",
    ),
    "an import": (
        "def f():\n    import math as a, cmath as b\n    a = a\n    return a.__name__",
        "def f():\n    import math as b, cmath as a\n    a = a\n    return a.__name__",
    ),
    "an import of a module in another": (
        "def f():\n    os = None\n    import os.path\n    return str(os)",
        "def f():\n    json = None\n    import os.path\n    return str(json)",
    ),
    "a capture": (
        "def f():\n    a = b = 0\n    match 5:\n        case a: pass\n    return a - b",
        "def f():\n    a = b = 0\n    match 5:\n        case b: pass\n    return a - b",
    ),
    "an error caught": (
        "def f():\n    a = b = 1\n    try:\n        1 / 0\n    except Exception as c:\n        return str(c or a)",
        "def f():\n    a = c = 1\n    try:\n        1 / 0\n    except Exception as b:\n        return str(c or a)",
    ),
    "the order of a tuple": (
        "def f():\n    a, b = 1, 2\n    return a - b",
        "def f():\n    b, a = 1, 2\n    return a - b",
    ),
}


def result(text: str) -> str:
    scope: dict[str, object] = {"A": 1, "B": 2}
    exec(compile(text, "<counterexample>", "exec"), scope)
    try:
        return repr(scope["f"]())
    except Exception as error:
        return repr(error)


@pytest.mark.parametrize("what", TWO_RESULTS)
def test_code_of_two_results_has_two_digests(what):
    one, other = TWO_RESULTS[what]
    assert result(one) != result(other)
    assert digest(one) != digest(other)


def functions(tree: ast.Module) -> dict[int, ast.FunctionDef | ast.AsyncFunctionDef]:
    """By the line where they begin, as `symtable` has it."""
    return {node.lineno: node for node in syntax._functions(tree.body)}


def tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for inner in table.get_children():
        yield from tables(inner)


def numbered(function: ast.AST, original: ast.AST) -> dict[str, object]:
    """The names that have become numbers."""
    pairs = zip(ast.walk(function), ast.walk(original), strict=True)
    return {theirs.id: ours.id for ours, theirs in pairs if isinstance(theirs, ast.Name) and ours.id != theirs.id}


def test_python_knows_each_numbered_name_as_a_variable_of_its_function():
    """In no scope of the function is it global; no two have one number; and other names give the same digest."""
    n_numbered = 0
    rooms = ("stages", "wsoup/core", "wsoup/finetune", "wsoup/search")
    for path in sorted(path for room in rooms for path in (code.ROOT / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        original = ast.parse(text)
        tree = ast.parse(text)
        for function in syntax._functions(tree.body):
            syntax._number_variables(function)
        by_line = {
            table.get_lineno(): table
            for table in tables(symtable.symtable(text, str(path), "exec"))
            if table.get_type() == "function"
        }
        ours = functions(tree)
        for line, function in functions(original).items():
            names = numbered(ours[line], function)
            n_numbered += len(names)
            assert sorted(names.values()) == list(range(len(names))), path
            for table in tables(by_line[line]):
                for symbol in table.get_symbols():
                    is_variable = (symbol.is_local() or symbol.is_free()) and not symbol.is_parameter()
                    assert symbol.get_name() not in names or is_variable, (path, symbol)
            for node in (inner for statement in function.body for inner in ast.walk(statement)):
                if isinstance(node, ast.Name) and node.id in names:
                    node.id = f"other_{names[node.id]}"
        assert digest(ast.unparse(original)) == digest(text), path
    assert n_numbered > 1000
