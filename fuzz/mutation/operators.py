"""The operators: each turns one node of a syntax tree into slightly wrong ones."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import copy
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)
Change = tuple[str, ast.AST, str, str]
"""Operator, the node instead, and what changed: text before, text after."""

ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
COMPARISON: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
PAIRS = {"min": "max", "any": "all", "minimum": "maximum", "amin": "amax", "argmin": "argmax"}
SWAPPED = PAIRS | {b: a for a, b in PAIRS.items()}
WITHOUT_LOGIC = frozenset({"strict", "dtype", "device", "non_blocking", "maxsize", "pin_memory"})
"""Keyword arguments that no step should depend on: types, places, assertions."""


def arithmetic(node: ast.AST) -> Iterator[Change]:
    """a + b -> a - b. Not of texts, nor of unions of types."""
    if not isinstance(node, ast.BinOp | ast.AugAssign) or type(node.op) not in ARITHMETIC:
        return
    sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
    if any(_text(side) for side in sides) or all(_type(side) for side in sides):
        return
    yield _changed("arithmetic", node, op=ARITHMETIC[type(node.op)]())


def sign(node: ast.AST) -> Iterator[Change]:
    """-a -> a, ~a -> a. Numbers are left to `constant`."""
    if not isinstance(node, ast.UnaryOp) or isinstance(node.operand, ast.Constant):
        return
    if isinstance(node.op, ast.USub | ast.Invert):
        yield "sign", node.operand, ast.unparse(node), ast.unparse(node.operand)


def comparison(node: ast.AST) -> Iterator[Change]:
    """a < b -> a <= b, a == b -> a != b."""
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            ops = list(node.ops)
            ops[i] = COMPARISON[type(op)]()
            yield _changed("comparison", node, ops=ops)


def boolean(node: ast.AST) -> Iterator[Change]:
    """a and b -> a or b."""
    if isinstance(node, ast.BoolOp):
        op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield _changed("boolean", node, op=op)


def negation(node: ast.AST) -> Iterator[Change]:
    """A condition -> its contrary, where `comparison` does not do that already."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        if not _contrary(node.test):
            yield _within("negation", node, node.test, _not(node.test), test=_not(node.test))
    elif isinstance(node, ast.comprehension):
        for i, test in enumerate(node.ifs):
            if not _contrary(test):
                ifs = list(node.ifs)
                ifs[i] = _not(test)
                yield _within("negation", node, test, ifs[i], ifs=ifs)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "negation", node.operand, ast.unparse(node), ast.unparse(node.operand)


def constant(node: ast.AST) -> Iterator[Change]:
    """n -> n + 1, n - 1; True -> False. No texts."""
    if not isinstance(node, ast.Constant):
        return
    if isinstance(node.value, bool):
        yield _changed("constant", node, value=not node.value)
    elif isinstance(node.value, int | float):
        yield _changed("constant", node, value=node.value + 1)
        yield _changed("constant", node, value=node.value - 1)


def boundary(node: ast.AST) -> Iterator[Change]:
    """a[i] -> a[i - 1], a[i:j] -> a[i + 1:j], a[i:j - 1]. Numbers are left to `constant`."""
    if not isinstance(node, ast.Subscript) or _type(node.value):
        return
    where = node.slice
    if isinstance(where, ast.Slice):
        if where.lower is not None and not isinstance(where.lower, ast.Constant):
            lower = _plus(where.lower, ast.Add())
            yield _changed("boundary", node, slice=_copy(where, lower=lower))
        if where.upper is not None and not isinstance(where.upper, ast.Constant):
            upper = _plus(where.upper, ast.Sub())
            yield _changed("boundary", node, slice=_copy(where, upper=upper))
    elif isinstance(where, ast.Name | ast.Attribute):
        yield _changed("boundary", node, slice=_plus(where, ast.Sub()))


def extreme(node: ast.AST) -> Iterator[Change]:
    """min -> max, any -> all, clamp(min=) -> clamp(max=); also methods of that name."""
    if not isinstance(node, ast.Call):
        return
    name = node.func
    if isinstance(name, ast.Name) and name.id in SWAPPED:
        yield _changed("extreme", node, func=_copy(name, id=SWAPPED[name.id]))
    elif isinstance(name, ast.Attribute) and name.attr in SWAPPED:
        yield _changed("extreme", node, func=_copy(name, attr=SWAPPED[name.attr]))
    for i, keyword in enumerate(node.keywords):
        if keyword.arg in ("min", "max"):
            keywords = list(node.keywords)
            keywords[i] = _copy(keyword, arg=SWAPPED[keyword.arg])
            yield _changed("extreme", node, keywords=keywords)


def argument(node: ast.AST) -> Iterator[Change]:
    """f(a, k=b) -> f(a), for what may be left out."""
    if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and _type(node.func)):
        for i, keyword in enumerate(node.keywords):
            if keyword.arg is not None and keyword.arg not in WITHOUT_LOGIC:
                keywords = [*node.keywords[:i], *node.keywords[i + 1 :]]
                yield _changed("argument", node, keywords=keywords)


def statement(node: ast.AST) -> Iterator[Change]:
    """A statement -> nothing. Not a new name, and not an attribute that is made here."""
    dropped = (ast.AugAssign, ast.Delete, ast.Continue, ast.Break, ast.Raise)
    effect = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)
    stored = isinstance(node, ast.Assign) and any(
        isinstance(part, ast.Attribute | ast.Subscript)
        for target in node.targets
        for part in ([target, *target.elts] if isinstance(target, ast.Tuple) else [target])
    )
    if isinstance(node, dropped) or effect or stored:
        nothing = ast.copy_location(ast.Pass(), node)
        yield "statement", nothing, ast.unparse(node).splitlines()[0], "pass"


OPERATORS: tuple[Callable[[ast.AST], Iterator[Change]], ...] = (
    arithmetic,
    sign,
    comparison,
    boolean,
    negation,
    constant,
    boundary,
    extreme,
    argument,
    statement,
)
"""All of them. A dropped `raise` is a missing refusal; its text is never touched."""


def _copy(node: Node, **fields: object) -> Node:
    other = copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _changed(operator: str, node: ast.AST, **fields: object) -> Change:
    other = _copy(node, **fields)
    return operator, other, ast.unparse(node), ast.unparse(other)


def _within(
    operator: str, node: ast.AST, before: ast.AST, after: ast.AST, **fields: object
) -> Change:
    """As `_changed`, for a node that is too long to be told whole."""
    return operator, _copy(node, **fields), ast.unparse(before), ast.unparse(after)


def _plus(node: ast.expr, op: ast.operator) -> ast.expr:
    """node + 1 or node - 1."""
    other = ast.BinOp(node, op, ast.Constant(1))
    return ast.fix_missing_locations(ast.copy_location(other, node))


def _not(test: ast.expr) -> ast.expr:
    return ast.copy_location(ast.UnaryOp(ast.Not(), test), test)


def _contrary(test: ast.expr) -> bool:
    """Whether another operator turns it round anyway."""
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    return isinstance(test, ast.Compare) and not isinstance(test.ops[0], ORDER)


def _text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _type(node: ast.expr) -> bool:
    """Whether it names a type, as far as its spelling tells."""
    if isinstance(node, ast.Constant):
        return node.value is None
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    known = ("tuple", "list", "dict", "set", "frozenset", "type", "array", "int", "float", "str")
    return name in known or (name[:1].isupper() and not name.isupper())
