"""Mutants: copies of a source file with one expression or statement changed."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    """One change: the line, and the changed statement before and after."""

    file: str
    line: int
    before: str
    after: str
    place: tuple[int, int]  # the statement of the file, and the change of the statement
    place_in: Literal["function", "constant", "elsewhere"]

    @property
    def what(self) -> str:
        return f"{self.file}:{self.line}: {self.before}  →  {self.after}"


@cache
def mutants(file: str, text: str) -> list[Mutant]:
    """All mutants of a file, in the order of its lines."""
    found, tree = [], ast.parse(text)
    inside = {
        id(each)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for each in ast.walk(function)
        if each is not function
    }
    for place, statement in enumerate(_statements(tree)):
        is_own = is_constant(statement) and statement in tree.body
        home: Literal["function", "constant", "elsewhere"] = (
            "function" if id(statement) in inside else "constant" if is_own else "elsewhere"
        )
        for at, change in enumerate(_changes(statement)):
            before, after = _first_difference(statement, change(_bare_copy(statement)))
            if before != after:
                found.append(Mutant(file, statement.lineno, before, after, (place, at), home))
    return found


def is_constant(statement: ast.stmt) -> bool:
    """Whether a statement gives a name to a plain value: numbers, words, and what they make."""
    return isinstance(statement, ast.Assign) and not any(
        isinstance(node, ast.Call | ast.Lambda | ast.Subscript)
        for node in ast.walk(statement.value)
    )


def source_of(mutant: Mutant, text: str) -> str:
    """The file with this change."""
    tree = ast.parse(text)
    place, at = mutant.place
    statement = next(each for number, each in enumerate(_statements(tree)) if number == place)
    change = next(each for number, each in enumerate(_changes(statement)) if number == at)
    parent, name, index = _place_of(tree, statement)
    getattr(parent, name)[index] = change(statement)
    return ast.unparse(ast.fix_missing_locations(tree))


def function_of(text: str, mutant: Mutant) -> str | None:
    """The function or method that a change belongs to; None if it is outside."""
    statements = _statements(tree := ast.parse(text))
    changed = next(each for number, each in enumerate(statements) if number == mutant.place[0])

    def search(node: ast.AST, name: str) -> str | None:
        for child in ast.iter_child_nodes(node):
            is_inside = any(each is changed for each in ast.walk(child))
            if is_inside and isinstance(child, ast.FunctionDef):
                return f"{name}{child.name}"
            if is_inside:
                within = f"{name}{child.name}." if isinstance(child, ast.ClassDef) else name
                return search(child, within)
        return None

    return search(tree, "")


def _bare_copy(statement: ast.stmt) -> ast.stmt:
    """A copy with empty bodies, which the change does not concern."""
    bare = copy.copy(statement)
    for name in ("body", "orelse", "finalbody", "handlers"):
        if isinstance(getattr(bare, name, None), list):
            setattr(bare, name, [ast.Pass()] if name == "body" else [])
    return copy.deepcopy(bare)


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Statements that do something; a compound one stands for its own line."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            for child in (
                getattr(node, name, ()) if isinstance(getattr(node, name, ()), list) else ()
            ):
                if isinstance(child, ast.stmt) and not _is_idle(child):
                    yield child


def _is_idle(statement: ast.stmt) -> bool:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    is_import = isinstance(statement, ast.Import | ast.ImportFrom | ast.ClassDef | ast.Pass)
    is_typing = isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)
    names = [ast.unparse(each) for each in getattr(statement, "targets", ())]
    return is_text or is_import or is_typing or "__all__" in names


def _own_nodes(statement: ast.stmt) -> list[ast.AST]:
    """The expressions of a statement itself, in a fixed order: not of the statements inside it, not
    of annotations, messages or defaults' names.
    """
    skipped: tuple[type[ast.AST], ...] = (ast.stmt, ast.JoinedStr, ast.expr_context)
    found: list[ast.AST] = []

    def visit(node: ast.AST) -> None:
        found.append(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST) and not isinstance(each, skipped):
                    visit(each)

    if not isinstance(statement, ast.Raise):
        visit(statement)
    return found


def _changes(statement: ast.stmt) -> Iterator[Any]:
    """Functions that change a copy of the statement and return what takes its place."""
    for place, node in enumerate(_own_nodes(statement)):
        for name, value, at in _other_fields(node):
            yield _setting(place, name, value, at)
    if isinstance(statement, ast.Return) and not _is_none(statement.value):
        yield _setting(0, "value", ast.Constant(None))
    if isinstance(statement, ast.Expr | ast.AugAssign | ast.Raise | ast.Continue | ast.Break):
        yield lambda _: ast.copy_location(ast.Pass(), statement)


def _other_fields(node: ast.AST) -> Iterator[tuple[str, Any, int | None]]:
    """Other values of a node's fields; an operator None gives way to its operand."""
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            yield "ops", SWAPPED[type(operator)](), at
    elif isinstance(node, ast.BoolOp | ast.BinOp | ast.AugAssign):
        if type(node.op) in SWAPPED:
            yield "op", SWAPPED[type(node.op)](), None
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "op", None, None
    elif isinstance(node, ast.Constant):
        for value in _other_values(node.value):
            yield "value", value, None
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield "test", ast.UnaryOp(ast.Not(), node.test), None


def _other_values(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    if isinstance(value, float):
        return [value * 2 if value else 1.0]
    return []


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _setting(place: int, name: str, value: Any, at: int | None = None) -> Any:
    """Sets a field of the node at a place; an operator that is None gives way to its operand."""

    def change(statement: ast.stmt) -> ast.stmt:
        node: Any = _own_nodes(statement)[place]
        if at is not None:
            getattr(node, name)[at] = value
        elif value is None and name == "op":
            return _Without(node).visit(statement)  # type: ignore[no-any-return]
        else:
            setattr(node, name, copy.deepcopy(value))
        return statement

    return change


class _Without(ast.NodeTransformer):
    """Removes one `not`."""

    def __init__(self, node: ast.AST) -> None:
        self._node = node

    def visit(self, node: ast.AST) -> Any:
        return node.operand if node is self._node else self.generic_visit(node)  # type: ignore[attr-defined]


def _first_difference(old: ast.stmt, new: ast.stmt) -> tuple[str, str]:
    """The first line that differs."""
    before, after = (
        ast.unparse(ast.fix_missing_locations(_bare_copy(each))).splitlines() for each in (old, new)
    )
    for one, other in zip(before, after, strict=False):
        if one != other:
            return one.strip(), other.strip()
    return before[-1].strip(), after[-1].strip()


def _place_of(tree: ast.Module, statement: ast.stmt) -> tuple[ast.AST, str, int]:
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                for at, each in enumerate(value):
                    if each is statement:
                        return node, name, at
    raise LookupError(ast.unparse(statement))
