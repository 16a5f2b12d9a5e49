"""What each operator makes of a piece of source, and what none of them touches."""

from pathlib import Path

import pytest

from draftproof.fuzz.mutation.mutants import Mutant, mutants


def changes(folder: Path, source: str) -> list[str]:
    """What is changed in a function around these lines: operator, before and after."""
    body = "".join(f"    {line}\n" for line in source.splitlines())
    return [m.name.removeprefix("f::work::") for m in made(folder, f"def work(a, b):\n{body}")]


def made(folder: Path, source: str) -> list[Mutant]:
    path = folder / "source.py"
    path.write_text(source, "utf-8")
    return mutants(path, "f")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("return a + b", ["arithmetic::return a + b -> return a - b"]),
        ("return a**b", ["arithmetic::return a ** b -> return a * b"]),
        ("return -a + ~b", [
            "arithmetic::return -a + ~b -> return -a - ~b",
            "sign::return -a + ~b -> return a + ~b",
            "sign::return -a + ~b -> return -a + b",
        ]),
        ("return a < b", ["comparison::return a < b -> return a <= b"]),
        ("return a in b", ["comparison::return a in b -> return a not in b"]),
        ("return a and b", ["boolean::return a and b -> return a or b"]),
        ("return not a", ["negation::not a -> a"]),
        ("while a:\n    b()", ["negation::a -> not a", "statement::b() -> pass"]),
        ("return a if b else 'x'", ["negation::b -> not b"]),
        ("return [x for x in a if x]", ["negation::x -> not x"]),
        ("return a(7)", [f"constant::return a(7) -> return a({n})" for n in (8, 6)]),
        ("return a(True)", ["constant::return a(True) -> return a(False)"]),
        ("return a[b]", ["boundary::return a[b] -> return a[b - 1]"]),
        (
            "return a[b:b]",
            [f"boundary::return a[b:b] -> return a[{end}]" for end in ("b + 1:b", "b:b - 1")],
        ),
        ("return min(a, b)", ["extreme::return min(a, b) -> return max(a, b)"]),
        ("return a.clamp(max=b)", [
            "extreme::return a.clamp(max=b) -> return a.clamp(min=b)",
            "argument::return a.clamp(max=b) -> return a.clamp()",
        ]),
        ("a.append(b)", ["statement::a.append(b) -> pass"]),
        ("a.b = b", ["statement::a.b = b -> pass"]),
        ("a += b", ["arithmetic::a += b -> a -= b", "statement::a += b -> pass"]),
        ("if a == b:\n    raise ValueError('no' + str(b + 1))", [
            "comparison::a == b -> a != b",
            "statement::raise ValueError('no' + str(b + 1)) -> pass",
        ]),
    ],
)  # fmt: skip
def test_each_operator_makes_its_change(source: str, expected: list[str], tmp_path: Path) -> None:
    """If this fails, an operator makes other mutants than it says, or none."""
    assert changes(tmp_path, source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "assert a < b, 'text' + a",
        "return f'{a + b} of {a[b]}'",
        "return 'text' + a",
        "x: dict[int, tuple[int, int]] = a",
        "return isinstance(a, int | None)",
        "return a(strict=True, dtype=b)",
        "'''Text of 3 lines.'''",
    ],
)
def test_types_texts_and_assertions_are_left_alone(source: str, tmp_path: Path) -> None:
    """If this fails, mutants that nobody has to see count as survivors."""
    assert not changes(tmp_path, source)


def test_what_is_for_people_is_left_alone(tmp_path: Path) -> None:
    """If this fails, the text of an object is taken for its state."""
    assert not made(tmp_path, "class A:\n    def __repr__(self):\n        return str(1 + 2)\n")


def test_the_code_of_a_mutant_is_changed_and_that_of_others_is_not(tmp_path: Path) -> None:
    """If this fails, mutants are judged that are none, or that are several at once."""
    first, *_, last = made(tmp_path, "one = 1 + 2\ntwo = 3 * 4\n")
    results = []
    for mutant in (first, last, first):
        names: dict[str, int] = {}
        exec(mutant.code(), names)  # noqa: S102 - of this very test
        results.append((names["one"], names["two"]))
    assert results == [(-1, 12), (3, 9), (-1, 12)]


def test_a_name_outlives_edits_elsewhere_and_no_edit_of_its_own(tmp_path: Path) -> None:
    """If this fails, a reason in the list is soon one for another mutant."""
    old = "def work(a, b):\n    return a[1] + b\n"
    names = {mutant.name for mutant in made(tmp_path, old)}
    moved = "X = 5\n\n\ndef work(a, b):\n    a.sort()\n    c = a[1] - b\n    return a[1] + b\n"
    assert names <= {mutant.name for mutant in made(tmp_path, moved)}
    assert not names & {mutant.name for mutant in made(tmp_path, old.replace("[1]", "[2]"))}


def test_mutants_of_the_same_text_have_different_names(tmp_path: Path) -> None:
    """If this fails, one of two mutants is never judged."""
    names = [mutant.name for mutant in made(tmp_path, "def f(a):\n    a()\n    a()\n")]
    assert names == ["f::f::statement::a() -> pass", "f::f::statement::a() -> pass #2"]


def test_the_sample_is_fixed_and_about_as_large_as_asked(tmp_path: Path) -> None:
    """If this fails, CI judges other mutants every day, or hardly any."""
    all_of_them = made(tmp_path, "".join(f"x{i} = {i}\n" for i in range(2, 1002)))
    chosen = [mutant.name for mutant in all_of_them if mutant.chosen(10)]
    assert 120 < len(chosen) < 280
    assert (
        chosen
        == [m.name for m in made(tmp_path, "y = 2\n") + all_of_them if m.chosen(10)][-len(chosen) :]
    )
