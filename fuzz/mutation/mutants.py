"""Every mutant of a file."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import CodeType

from draftproof.fuzz.mutation.operators import OPERATORS, WITHOUT_LOGIC

LONGEST, CONTEXT, TINY = 72, 48, 16
"""Characters of a text in a name; up to which the expression around a change is told; and below
which it says too little to be told alone."""
WHOLE = frozenset({"statement", "negation"})
"""Operators that tell themselves what they change."""
FOR_PEOPLE = frozenset({"__repr__", "__str__", "_repr_pretty_"})
IGNORED = {
    ast.AnnAssign: {"annotation", "target"},
    ast.arg: {"annotation"},
    ast.FunctionDef: {"returns", "decorator_list", "type_params"},
    ast.ClassDef: {"bases", "keywords", "decorator_list", "type_params"},
    ast.Raise: {"exc", "cause"},
    ast.ExceptHandler: {"type"},
}
"""Fields without logic: types, and texts of errors."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one file.

    name: file, function, operator, what it replaces by what, and which of several alike it is. An
    edit elsewhere leaves it alone; one of the very expression gives a new mutant, as it should.
    """

    name: str
    path: Path
    line: int
    operator: str
    site: Site = field(repr=False, compare=False)
    new: ast.AST = field(repr=False, compare=False)

    def code(self) -> CodeType:
        """The file with the change in it. The syntax tree is as before afterwards."""
        old = self.site.put(self.new)
        try:
            return compile(self.site.tree, str(self.path), "exec", dont_inherit=True)
        finally:
            self.site.put(old)

    def chosen(self, every: int) -> bool:
        """Whether it is in the fixed sample of one in so many."""
        return int(sha256(self.name.encode()).hexdigest()[:12], 16) % every == 0


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the syntax tree of a file."""

    tree: ast.Module
    holder: ast.AST
    field: str
    index: int | None

    def put(self, new: ast.AST) -> ast.AST:
        """Exchange what is there; returns what was."""
        if self.index is None:
            old: ast.AST = getattr(self.holder, self.field)
            setattr(self.holder, self.field, new)
            return old
        nodes: list[ast.AST] = getattr(self.holder, self.field)
        old, nodes[self.index] = nodes[self.index], new
        return old


def mutants(path: Path, name: str | None = None) -> list[Mutant]:
    """Every mutant of a file, in the order of its source; name: what to call the file."""
    tree = ast.parse(path.read_text("utf-8"))
    found: list[Mutant] = []
    alike: Counter[str] = Counter()
    for site, function, node, around in _places(tree, tree, "", ()):
        for operator in OPERATORS:
            for kind, new, before, after in operator(node):
                if kind == "statement" and function.endswith("__init__"):
                    continue  # an attribute that is missing altogether
                if kind not in WHOLE:
                    before, after = _in_context(site, new, [*around, node])
                words = f"{name or path}::{function or 'module'}::{kind}::{_change(before, after)}"
                alike[words] += 1
                if alike[words] > 1:
                    words += f" #{alike[words]}"
                found.append(Mutant(words, path, getattr(node, "lineno", 0), kind, site, new))
    return found


def _in_context(site: Site, new: ast.AST, around: Sequence[ast.AST]) -> tuple[str, str]:
    """The expression around a change, before and after: the largest that is short enough."""
    whole = around[-1]
    for node in reversed(around[:-1]):
        if len(_text(node)) > CONTEXT and len(_text(whole)) >= TINY:
            break
        whole = node
    before = _text(whole)
    if whole is around[-1]:
        return before, _text(new)
    old = site.put(new)
    try:
        return before, ast.unparse(whole)
    finally:
        site.put(old)


@lru_cache(maxsize=10_000)
def _text(node: ast.AST) -> str:
    return ast.unparse(node)


def _change(before: str, after: str) -> str:
    """Both texts in one line, cut to what is around their first difference."""
    before, after = " ".join(before.split()), " ".join(after.split())
    pairs = enumerate(zip(before, after, strict=False))
    same = next((i for i, (a, b) in pairs if a != b), min(len(before), len(after)))
    first = max(0, same - LONGEST // 2) if max(len(before), len(after)) > LONGEST else 0
    return " -> ".join(_cut(text, first) for text in (before, after))


def _cut(text: str, first: int) -> str:
    end = first + LONGEST
    return f"{'…' if first else ''}{text[first:end]}{'…' if end < len(text) else ''}"


def _places(
    tree: ast.Module, node: ast.AST, function: str, around: tuple[ast.AST, ...]
) -> Iterator[tuple[Site, str, ast.AST, tuple[ast.AST, ...]]]:
    """Every node that may be changed, the function it is in, the expressions it is in."""
    ignored = IGNORED.get(type(node), set())
    for name, value in ast.iter_fields(node):
        if name in ignored:
            continue
        children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if not isinstance(child, ast.AST) or _without_logic(child):
                continue
            own = function
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                own = f"{function}.{child.name}" if function else child.name
            yield Site(tree, node, name, index), own, child, around
            block = isinstance(child, ast.stmt) and hasattr(child, "body")
            inner = (*around, child) if hasattr(child, "lineno") or around else around
            yield from _places(tree, child, own, () if block else inner)


def _note(node: ast.expr) -> bool:
    """Whether an exception is told one sentence more."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_note"
    )


def _without_logic(node: ast.AST) -> bool:
    """Whether nothing in here is mutated."""
    if isinstance(node, ast.FunctionDef):
        return node.name in FOR_PEOPLE
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _note(node.value)
    if isinstance(node, ast.keyword):
        return node.arg in WITHOUT_LOGIC
    return isinstance(node, ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom)
