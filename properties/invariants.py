"""The invariants of semantics, section 17, as plain functions over journal and states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from draftproof.properties.history import History, Life, two
from draftproof.reference.vocabulary import (
    NEUTRAL_LOGIT,
    ROW_COMPONENTS,
    Config,
    ContextRow,
    GenerationRow,
    WorkerState,
)
from draftproof.sim.divergence import Divergence
from draftproof.sim.journal import (
    Answered,
    Delivered,
    Departed,
    Entry,
    Fed,
    Restarted,
    Submitted,
)
from draftproof.sim.target import law, prompt_token


class Invariants:
    """A watch over one run (`draftproof.sim.lockstep.Watch`)."""

    def __init__(self, config: Config) -> None:
        self.history = History(config)
        self.before: WorkerState | None = None

    def step(self, entries: Sequence[Entry], state: WorkerState | None) -> None:
        """See what the journal gained, and the state after it. Raises Divergence."""
        for entry in entries:
            self._see(entry)
        if state is None:
            return
        batch = self.history.batch
        if batch is not None and batch.mode == "warmup" and self.before is not None:
            i19_warmup(self.before, state)
        elif self.history.result is not None:
            check_state(self.history, state)
        self.before = state

    def _see(self, entry: Entry) -> None:
        history = self.history
        if isinstance(entry, Fed):
            history.batch, history.result = entry.batch, None
            if entry.batch.mode != "warmup":
                history.undelivered.clear()
                check_batch(history, entry)
        elif isinstance(entry, Answered):
            assert history.batch is not None
            if entry.result is not None and history.batch.mode != "warmup":
                history.result = entry.result
                check_result(history)
                history.answered()
        elif isinstance(entry, Delivered):
            check_delivery(history, entry)
        elif isinstance(entry, Submitted):
            history.lives[entry.incarnation] = _born(entry)
        elif isinstance(entry, Departed):
            i14_departure(history, entry)
            history.lives[entry.incarnation].over = entry.reason
        elif isinstance(entry, Restarted):
            life = history.lives[entry.incarnation]
            life.next_position, life.drafts = 0, []


def _born(entry: Submitted) -> Life:
    asked = entry.event
    life = Life(entry.request_id, entry.incarnation, asked, asked.prompt)
    life.next_position = asked.prompt - 1 if asked.imported else min(asked.reused, asked.prompt - 1)
    return life


def require(
    holds: bool,
    invariant: str,
    expected: Any,
    found: Any,
    oracle: str = "invariant",
    **where: Any,
) -> None:
    """Raise the Divergence of a broken invariant."""
    if not holds:
        raise Divergence(oracle, invariant, expected, found, **where)


def _whose(row: ContextRow | GenerationRow) -> dict[str, Any]:
    return {"request": row.request_id, "incarnation": row.incarnation}


# What the engine fed


def check_batch(history: History, fed: Fed) -> None:
    """Everything that must hold of a batch before anybody runs it."""
    section_10_lookup(history)
    i9_owners(history)
    for b, row, life in history.real_rows():
        i13_alive(row, life)
        i4_fed_position(row, life)
        i17_reserved(history, b, row, fed.reserved[b])
    i18_drafts(history)


def section_10_lookup(history: History) -> None:
    """r is the schedule's value for this rank's rows, idle dummy included, padding not."""
    batch, schedule = history.batch, history.config.draft_len_schedule
    assert batch is not None
    if schedule is None:
        return
    rows = len(history.real_rows()) or 1
    values = [r for threshold, r in schedule if threshold >= rows]
    expected = values[0] if values else 0
    require(batch.draft_len == expected, "draft length lookup", expected, batch.draft_len)


def i9_owners(history: History) -> None:
    """Every packed row has one owner, by one set of offsets."""
    batch, widths = history.batch, history.widths()
    assert batch is not None and batch.hidden is not None
    r, contexts = batch.draft_len, len(batch.contexts)
    logit_rows = contexts + sum(widths[contexts:])
    require(len(batch.target_tokens) == logit_rows, "I9", logit_rows, len(batch.target_tokens))
    require(
        len(batch.drafts) == r * len(batch.generations), "I9", "G * r drafts", len(batch.drafts)
    )
    wanted = bytearray()
    low, high = two(batch.step)
    for row, width in zip(batch.rows, widths, strict=True):
        first = row.first_position if isinstance(row, ContextRow) else row.position
        own = two(row.incarnation)
        for position in range(first, first + width):
            wanted += bytes((*own, *two(position), low, high, 0))
    found = batch.hidden.tobytes()
    if found != wanted:
        length = min(len(found), len(wanted))
        first_bad = next((i for i in range(length) if found[i] != wanted[i]), length)
        index = first_bad // ROW_COMPONENTS
        part = slice(index * ROW_COMPONENTS, (index + 1) * ROW_COMPONENTS)
        require(False, "I9", list(wanted[part]), list(found[part]), position=index)


def i13_alive(row: ContextRow | GenerationRow, life: Life) -> None:
    """Only a live incarnation is fed, under the id it was submitted with."""
    require(life.over is None, "I13", "a live request", f"one that {life.over}", **_whose(row))
    require(
        row.request_id == life.request_id, "I13", life.request_id, row.request_id, **_whose(row)
    )


def i4_fed_position(row: ContextRow | GenerationRow, life: Life) -> None:
    """Chunks follow each other; an anchor is the last committed token."""
    if isinstance(row, ContextRow):
        expected, found = life.next_position, row.first_position
        end = row.first_position + row.length
        require(end <= life.length, "I4", f"a chunk within {life.length}", end, **_whose(row))
    else:
        expected, found = life.length - 1, row.position
    require(found == expected, "I4", expected, found, **_whose(row))


def i17_reserved(
    history: History, b: int, row: ContextRow | GenerationRow, reserved: int | None
) -> None:
    """Reserved target rows reach the furthest write of this step."""
    assert history.batch is not None
    if isinstance(row, ContextRow):
        furthest = row.first_position + row.length
    else:
        furthest = row.position + 1 + history.batch.draft_len
    holds = reserved is not None and reserved >= furthest
    require(holds, "I17", f"at least {furthest}", reserved, row=b, **_whose(row))


def i18_drafts(history: History) -> None:
    """The drafts verified are those proposed for this request in the last step, or placeholders."""
    batch = history.batch
    assert batch is not None
    r = batch.draft_len
    for g, row in enumerate(batch.generations):
        life = history.life(row)
        if life is None:
            continue
        wanted = life.drafts[:r]
        found = batch.drafts[g * r : (g + 1) * r].tolist()
        where = {"row": len(batch.contexts) + g, **_whose(row)}
        require(
            row.proposed == len(wanted), "I18", f"{len(wanted)} proposed", row.proposed, **where
        )
        wanted = wanted + [0] * (r - len(wanted))
        require(found == wanted, "I18", wanted, found, **where)


# What the worker answered


def check_result(history: History) -> None:
    """I5 and the first half of I20: counts fit what was verified, and tokens the drafts."""
    batch, result = history.batch, history.result
    assert batch is not None and result is not None
    r, contexts = batch.draft_len, len(batch.contexts)
    widths = history.widths()
    for b, row in enumerate(batch.rows):
        n = result.new_tokens_lens[b]
        most = 1 if b < contexts else widths[b]
        where = {"row": b, **_whose(row)}
        require(1 <= n <= most, "I5", f"1..{most} tokens", n, **where)
        proposals = result.next_draft_tokens[b]
        require(len(proposals) == r, "I20", f"{r} proposals", len(proposals), **where)
        if b >= contexts and batch.target_probs is None:
            base = (b - contexts) * r
            verified = batch.drafts[base : base + n - 1].tolist()
            kept = list(result.new_tokens[b][: n - 1])
            require(kept == verified, "I6", verified, kept, **where)


def check_delivery(history: History, entry: Delivered) -> None:
    """I13, I14, I20 and I7 for the tokens that one request was given."""
    where: dict[str, Any] = {"request": entry.request_id, "incarnation": entry.incarnation}
    life = history.lives[entry.incarnation]
    require(life.over is None, "I13", "a live request", f"one that {life.over}", **where)
    step, tokens = history.undelivered.pop(entry.incarnation, (None, []))
    require(step == entry.step, "I13", f"a result of step {step}", entry.step, **where)
    given = list(entry.tokens)
    require(given == tokens[: len(given)] and bool(given), "I20", tokens, given, **where)
    i14_delivery(life, given, len(tokens) - len(given), where)
    i7_plain_decode(history.config, life, given, where)
    life.output += given
    life.length += len(given)
    life.next_position = life.length - 1
    require(entry.kept == life.length, "I17", life.length, entry.kept, **where)


def i14_delivery(life: Life, given: list[int], dropped: int, where: dict[str, Any]) -> None:
    """Nothing is emitted behind the stop token or the limit, and nothing dropped before."""
    asked = life.asked
    total = len(life.output) + len(given)
    require(total <= asked.limit, "I14", f"at most {asked.limit} tokens", total, **where)
    require(asked.stop not in given[:-1], "I14", f"nothing after {asked.stop}", given, **where)
    ended = total == asked.limit or given[-1] == asked.stop
    require(ended or not dropped, "I20", "no token dropped", f"{dropped} dropped", **where)


def i14_departure(history: History, entry: Departed) -> None:
    """A request finishes at its stop token or limit; departing happens once."""
    life = history.lives[entry.incarnation]
    where: dict[str, Any] = {"request": life.request_id, "incarnation": entry.incarnation}
    require(life.over is None, "I13", "one departure", f"again: {life.over}", **where)
    if entry.reason == "finished":
        output, asked = life.output, life.asked
        ended = len(output) == asked.limit or output[-1:] == [asked.stop]
        require(ended, "I14", "an end at stop or limit", f"{len(output)} tokens", **where)


def i7_plain_decode(config: Config, life: Life, given: list[int], where: dict[str, Any]) -> None:
    """Autonomous greedy output is what the target alone would have said, token by token."""
    if config.target != "autonomous":
        return
    position, v = life.length - 1, config.vocab_size
    token = life.output[-1] if life.output else prompt_token(life.incarnation, position, v)
    plain = []
    for i in range(len(given)):
        token = law(life.incarnation, position + i, token, v)
        plain.append(token)
    if plain != given:
        require(False, "I7", plain, given, oracle="plain decode", position=position, **where)


# The worker's state


def i19_warmup(before: WorkerState, after: WorkerState) -> None:
    """A warm-up, finished or failed, leaves no trace."""
    for name in WorkerState.__dataclass_fields__:
        was, now = getattr(before, name), getattr(after, name)
        require(was == now, "I19", f"{name} as before the warm-up: {was}", now)


def check_state(history: History, state: WorkerState) -> None:
    """Invariants of the state after a step that did not fail. Fields that are None are passed."""
    if state.slots is None:
        return
    i1_slots(history, state)
    for b, row, life in history.real_rows():
        slot = state.slots.get(row.request_id)
        if slot is not None:
            i4_counters(state, row, life, slot)
            i3_window(state, row, life, slot)
            i2_admission(history, b, state, row, life, slot)


def i1_slots(history: History, state: WorkerState) -> None:
    """Requests and slots are one to one; everybody else maps to scratch; free + used = all."""
    batch, slots = history.batch, state.slots
    assert batch is not None and slots is not None
    everybody = set(range(history.config.max_num_requests))
    used = list(slots.values())
    require(len(set(used)) == len(used), "I1", "one slot per request", dict(slots))
    rows = history.real_rows()
    present = {row.request_id for _, row, _ in rows}
    require(set(slots) == present, "I1", sorted(present), sorted(slots))
    if state.free_slots is not None:
        union = sorted([*used, *state.free_slots])
        require(union == sorted(everybody), "I1", sorted(everybody), union)
    if state.batch_to_slot is not None:
        for b, row in enumerate(batch.rows):
            first_chunk = isinstance(row, ContextRow) and (
                row.first_position == 0 or history.lives[row.incarnation].admitted
            )
            known = row.incarnation in history.lives and not first_chunk
            slot = slots.get(row.request_id) if known else len(everybody)
            found = state.batch_to_slot[b]
            require(found == slot, "I1", f"slot {slot}", found, row=b, **_whose(row))


def i4_counters(state: WorkerState, row: ContextRow | GenerationRow, life: Life, slot: int) -> None:
    """The next block is anchored at the number of committed tokens before the bonus."""
    if state.ctx_len is not None:
        found = state.ctx_len[slot]
        require(found == life.last_frame, "I4", life.last_frame, found, slot=slot, **_whose(row))


def i3_window(state: WorkerState, row: ContextRow | GenerationRow, life: Life, slot: int) -> None:
    """Visible frames are this incarnation's committed positions, really fed; none is missing."""
    where = {"slot": slot, **_whose(row)}
    visible = len(life.stages[0])
    if state.valid_len is not None:
        require(state.valid_len[slot] == visible, "I21", visible, state.valid_len[slot], **where)
    if state.windows is None or state.windows[slot] == life.stages:
        return
    for stage, wanted in enumerate(life.stages):
        for i, (want, got) in enumerate(zip(wanted, state.windows[slot][stage], strict=False)):
            frame = life.last_frame - visible + 1 + i
            require(want == got, "I3", want, got, stage=stage, frame=frame, **where)
    require(False, "I21", f"{visible} frames", len(state.windows[slot][0]), **where)


def i2_admission(
    history: History,
    b: int,
    state: WorkerState,
    row: ContextRow | GenerationRow,
    life: Life,
    slot: int,
) -> None:
    """A slot is as new at admission: nothing is known about its confidence yet."""
    batch = history.batch
    assert batch is not None
    drafted = b >= len(batch.contexts) and batch.draft_len > 0
    if life.admitted and not drafted and state.confidence_logits is not None:
        found = list(state.confidence_logits[slot])
        require(set(found) == {NEUTRAL_LOGIT}, "I2", NEUTRAL_LOGIT, found, slot=slot, **_whose(row))
