"""What the fields of an answer look like, and which one of a given answer does not look like that.

Comparing takes them to be right, since looking at every number costs more than comparing it. Only
where it cannot go on is the answer looked at here, so that its field can be named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftproof.sim.divergence import Divergence

Shape = tuple[int, type | tuple[type, ...], str]
"""How deeply lists are nested, what is in the innermost ones, and the same for people."""

NUMBER = (int, float)

RESULT: dict[str, Shape] = {
    "window_source": (0, str, "one of the words of `WindowSource`"),
    "new_tokens_lens": (1, int, "whole numbers [B]"),
    "new_tokens": (2, NUMBER, "tokens [B, 1 + r]"),
    "next_draft_tokens": (2, NUMBER, "tokens [B, r]"),
    "next_new_tokens": (2, NUMBER, "tokens [B, 1 + r]"),
}
"""Fields in the order in which they are compared."""

PLANNED: dict[str, Shape] = {"verify_lens": (1, NUMBER, "verify windows [G]")}

STATE: dict[str, Shape] = {
    "slots": (0, Mapping, "a mapping from request id to slot"),
    "free_slots": (1, NUMBER, "slots, the front of the queue first"),
    "attention_rows": (1, NUMBER, "token rows [B]"),
    "batch_to_slot": (1, NUMBER, "slots [B], or more of them"),
    "ctx_len": (1, NUMBER, "frames [S + 1]"),
    "valid_len": (1, NUMBER, "numbers of frames [S + 1]"),
    "initialized": (1, NUMBER, "truth values [S + 1]"),
    "windows": (4, NUMBER, "rows [S][stages][valid_len][D]"),
    "confidence_logits": (2, NUMBER, "logits [S + 2, K]"),
    "confidence_stamp": (1, NUMBER, "stamps [S + 2]"),
    "draft_seq": (0, NUMBER, "a number"),
    "token_counts": (2, NUMBER, "counts [S][V]"),
    "prompt_seen": (2, NUMBER, "truth values [S][V]"),
    "grammar_depth": (1, NUMBER, "numbers of tokens [S]"),
    "draft_probs": (3, NUMBER, "probabilities [S][K][V]"),
}
"""Here a field that cannot be shown is None."""

UNSET = ("token_counts", "prompt_seen", "grammar_depth", "draft_probs")
"""Fields within which None stands for what nobody has set."""


def listed(value: Any) -> Any:
    """Nested lists of a tensor or an array; lists as they are."""
    return value.tolist() if hasattr(value, "tolist") else value


def nested(value: Any) -> Any:
    """The same of tuples, and of lists of tensors, arrays or tuples."""
    if hasattr(value, "tolist"):
        return value.tolist()  # numbers all the way down
    return [nested(item) for item in value] if isinstance(value, list | tuple) else value


def misshapen(answer: Any, shapes: Mapping[str, Shape]) -> Divergence | None:
    """The first field of an answer that does not look as it should; None if all of them do."""
    for field, (depth, inmost, words) in shapes.items():
        try:
            value = getattr(answer, field)
            shown = value is not None or shapes is not STATE
            odd = _odd(value, depth, inmost, field in UNSET) if shown else None
        except Exception as error:  # noqa: BLE001 - a foreign object may raise anything
            odd = f"{type(error).__name__}: {error}"
        if odd is not None:
            return Divergence("comparison", field, words, odd)
    return None


def _odd(
    value: Any, depth: int, inmost: type | tuple[type, ...], unset: bool, place: str = ""
) -> str | None:
    """What is wrong about it, and where; unset: None is not."""
    value, wanted = nested(value), list if depth else inmost
    if value is None and unset:
        return None
    if not isinstance(value, wanted):
        text = repr(value)
        short = text if len(text) < 60 else f"{text[:57]}..."
        return f"{type(value).__name__} {short}{place and f' at {place}'}"
    parts: Any = enumerate(value) if isinstance(value, list) else ()
    odds = (_odd(part, depth - 1, inmost, unset, f"{place}[{i}]") for i, part in parts)
    return next(filter(None, odds), None)
