"""Each check finds a fault planted in the kernel that it is for."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from triton.runtime.errors import InterpreterError

from draftproof.gpu import kernels
from kernels import checks as state
from kernels import model_checks as model
from kernels.guards import run_programs

pytestmark = pytest.mark.interpreted

FOLDER = Path(kernels.__file__).parent


class Fault(NamedTuple):
    """A text that occurs once in a file of kernels, and what stands there instead.

    through: the file whose launcher is checked, if it is not the faulty one; way: how programs
    run, where the fault shows in no other way.
    """

    name: str
    file: str
    old: str
    new: str
    check: Callable[[ModuleType], None]
    through: str | None = None
    way: str = "one program"


FAULTS = [
    Fault(
        "matches past the window",
        "acceptance",
        "match = match & (i + 1 < window[:, None])",
        "match = match",
        state.check_verify,
    ),
    Fault(
        "window off by one",
        "acceptance",
        "(i + 1 < window[:, None])",
        "(i < window[:, None])",
        state.check_verify,
    ),
    Fault(
        "rows past the batch are stored",
        "acceptance",
        "inside = row[:, None] & (i < r_rows)",
        "inside = row[:, None] | (i < r_rows)",
        state.check_verify,
    ),
    Fault(
        "valid_len not clamped",
        "counters",
        "tl.minimum(seen + count, width)",
        "seen + count",
        state.check_verify,
        "acceptance",
    ),
    Fault(
        "an imported request starts at 0",
        "counters",
        "tl.where(known, before, position)",
        "tl.where(known, before, 0)",
        state.check_verify,
        "acceptance",
    ),
    Fault(
        "u · p = q is accepted",
        "rejection",
        "(u * own < tl.load(q_at, mask=tested, other=0.0))",
        "(u * own <= tl.load(q_at, mask=tested, other=0.0))",
        state.check_reject,
    ),
    Fault(
        "residual not clipped",
        "rejection",
        "return tl.maximum(q - p, 0.0), q",
        "return q - p, q",
        state.check_reject,
    ),
    Fault(
        "placeholders tested against stale rows",
        "rejection",
        "mask=tested & (i < known), other=1.0)",
        "mask=tested, other=1.0)",
        state.check_reject,
    ),
    Fault(
        "no residual mass draws token -1",
        "rejection",
        "instead = tl.where(total > 0, tl.max(last, 1), last_q)",
        "instead = tl.max(last, 1)",
        state.check_reject,
    ),
    Fault(
        "recovery number of another ending",
        "rejection",
        "(count - 1) * ending_stride",
        "0 * ending_stride",
        state.check_reject,
    ),
    Fault(
        "numbers of the anchor's own position",
        "philox",
        "mask=inside, other=0) + 1 + at % count",
        "mask=inside, other=0) + at % count",
        state.check_uniforms,
    ),
    Fault(
        "upper half of the seed not used",
        "philox",
        "tl.load(high + g, mask=inside, other=0)",
        "tl.load(low + g, mask=inside, other=0)",
        state.check_uniforms,
    ),
    Fault(
        "rows share their numbers",
        "philox",
        "g = at // count % rows",
        "g = at // count % 1",
        state.check_uniforms,
    ),
    Fault(
        "running sum may equal the threshold",
        "drawing",
        "(before[:, None] + tl.cumsum(mass, 1) > threshold[:, None])",
        "(before[:, None] + tl.cumsum(mass, 1) >= threshold[:, None])",
        state.check_reject,
        "rejection",
    ),
    Fault(
        "column off by one",
        "windows",
        "mask=from_accepted, other=0) + 1 + i",
        "mask=from_accepted, other=0) + i",
        state.check_windows,
    ),
    Fault(
        "rejected rows are stored",
        "windows",
        "from_accepted & (i < count) &",
        "from_accepted &",
        state.check_windows,
    ),
    Fault(
        "of two rows for a column either wins",
        "windows",
        " & (i >= count - width)",
        "",
        state.check_windows,
        way="backwards",
    ),
    Fault(
        "components past the row are stored",
        "windows",
        "(from_prompt | from_accepted)[:, None] & (d < size)",
        "(from_prompt | from_accepted)[:, None] & (d < size + 1)",
        state.check_windows,
    ),
    Fault(
        "stage 0 everywhere",
        "windows",
        "stage * stage_stride + frame % width * column_stride\n    stored",
        "frame % width * column_stride\n    stored",
        state.check_windows,
    ),
    Fault(
        "masked rows go to scratch",
        "windows",
        "from_accepted = from_accepted & (i < count)",
        "slot = tl.where(i < count, slot, 2)\n        from_accepted = from_accepted",
        state.check_masked_rows,
    ),
    Fault(
        "an invisible frame is summed",
        "exact_drafter",
        "(age < valid[:, None])",
        "(age <= valid[:, None])",
        state.check_draft,
    ),
    Fault(
        "the chain goes on from the argmax",
        "exact_drafter",
        "token = tl.where(tl.load(greedy",
        "drawn = tl.where(tl.load(greedy",
        state.check_draft,
    ),
    Fault(
        "masses on one token are not added",
        "probabilities",
        "law += tl.where(v == (token + j) % vocab, tl.load(masses + j), 0.0)",
        "law = tl.where(v == (token + j) % vocab, tl.load(masses + j), law)",
        state.check_one_hot,
    ),
    Fault(
        "the rest is not 0",
        "probabilities",
        "mask=inside & (source >= 0), other=0.0)\n    out",
        "mask=inside, other=0.0)\n    out",
        state.check_scatter,
    ),
    Fault(
        "no sink",
        "attention",
        "total = tl.full([BLOCK_M], 1.0, tl.float32)",
        "total = tl.full([BLOCK_M], 0.0, tl.float32)",
        model.check_attention,
    ),
    Fault(
        "without a sink, an empty tile is NaN",
        "attention",
        "tl.maximum(tl.load(sink + m % heads, mask=row, other=0.0), LOWEST)",
        "tl.load(sink + m % heads, mask=row, other=0.0)",
        model.check_attention,
    ),
    Fault(
        "masked cells are multiplied by 0",
        "attention",
        "d, mask=seen[:, None] & inside, other=0.0)",
        "d, mask=inside & (c < WIDTH)[:, None], other=0.0)",
        model.check_attention,
    ),
    Fault(
        "the heads' sinks are mixed up",
        "attention",
        "tl.load(sink + m % heads,",
        "tl.load(sink + m // block,",
        model.check_attention,
    ),
    Fault(
        "rotary turns the wrong way",
        "windows",
        "rounded(a * sine + b * cosine, dtype)",
        "rounded(b * cosine - a * sine, dtype)",
        model.check_normed_windows,
    ),
    Fault(
        "the last of equal logits wins",
        "markov",
        "tl.where(best > top, index, first_top)",
        "tl.where(best >= top, index, first_top)",
        model.check_markov,
        way="many programs",
    ),
    Fault(
        "the bias of the bonus for all positions",
        "markov",
        "before = tokens + g * (block + 1) + k\n",
        "before = tokens + g * (block + 1)\n",
        model.check_markov,
    ),
    Fault(
        "joined, the last of equal pieces wins",
        "markov",
        "tl.where(best > highest, first, token)",
        "tl.where(best >= highest, first, token)",
        model.check_markov,
        way="many programs",
    ),
    Fault(
        "joined, a position overwrites what others still read",
        "markov",
        "(floats[0], ints[0]), (floats[1], ints[1])",
        "(floats[0], ints[0]), (floats[0], ints[0])",
        model.check_markov,
        way="many programs",
    ),
    Fault(
        "joined, the token is not kept",
        "markov",
        "mask=row & (tl.program_id(1) == 0)",
        "mask=row & (tl.program_id(1) < 0)",
        model.check_markov,
    ),
    Fault(
        "temperature is not used",
        "markov",
        "x = x / heat[:, None]",
        "x = x / 1.0",
        model.check_markov_sampled,
    ),
]


def loaded(folder: Path, name: str, text: str) -> ModuleType:
    """A module from a text; the interpreter wants to read it in a file."""
    path = folder / f"{name}.py"
    path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def planted(fault: Fault, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module to check, with the fault in it or below it."""
    text = (FOLDER / f"{fault.file}.py").read_text("utf-8")
    assert text.count(fault.old) == 1, fault.old
    faulty = text.replace(fault.old, fault.new)
    if fault.through is None:
        return loaded(folder, f"planted_{fault.file}", faulty)
    monkeypatch.syspath_prepend(folder)
    (folder / "planted_below.py").write_text(faulty, "utf-8")
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, "planted_below", raising=False)
    above = (FOLDER / f"{fault.through}.py").read_text("utf-8")
    changed = above.replace(f"draftproof.gpu.kernels.{fault.file}", "planted_below")
    assert changed != above
    return loaded(folder, f"planted_{fault.through}", changed)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_planted_fault_is_found(
    fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a kernel may make this mistake and nobody notices."""
    module = planted(fault, tmp_path, monkeypatch)
    run_programs(fault.way, monkeypatch)
    with pytest.raises((AssertionError, InterpreterError)):
        fault.check(module)
