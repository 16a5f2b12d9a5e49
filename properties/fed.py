"""What must hold of a request that comes, and of a batch before anybody runs it.

I4, I5, I8, I9, I10, I13, I14, I17, I18, I19.
"""

from __future__ import annotations

from draftproof.properties.broken import broken
from draftproof.properties.guided import check_told, grammar, sizes
from draftproof.properties.history import History, Life
from draftproof.properties.windows import captured_shape
from draftproof.reference.vocabulary import (
    IDLE_ID,
    PADDING_ID_BASE,
    ROW_COMPONENTS,
    UNDONE,
    Batch,
    Config,
    ContextRow,
    Frames,
    GenerationRow,
)
from draftproof.sim.assembly import ACCEPT, DRAFT, RECOVER
from draftproof.sim.grammars import end_token
from draftproof.sim.journal import Fed, Submitted
from draftproof.sim.target import seed, uniform


def check_submission(history: History, entry: Submitted) -> None:
    """A new life, under an id that nobody alive has."""
    if entry.incarnation in history.lives:
        broken("I13", "a new incarnation", entry.incarnation, of=entry)
    holder = history.lives.get(history.holders.get(entry.request_id, 0))
    if holder is not None and holder.over is None:
        broken("I13", "an id that is free", f"that of incarnation {holder.incarnation}", of=entry)
    history.holders[entry.request_id] = entry.incarnation
    history.lives[entry.incarnation] = life = Life.of(entry)
    if history.config.target_logits and grammar(life):
        life.stop = end_token(history.config.vocab_size)


def check_batch(history: History, fed: Fed) -> None:
    """Raise the Divergence of the first invariant that the batch breaks."""
    batch, config = fed.batch, history.config
    i9_sizes(config, batch, history.widths)
    i9_hidden(history)
    if batch.mode in UNDONE:
        return
    if not history.late:
        i13_delivered(history)
    section_10_lookup(history)
    section_11_padding(history)
    i9_owners(history)
    for b, row, life in history.real:
        i13_alive(row, life)
        i5_position(history, row, life)
        i17_reserved(history, b, row, fed.reserved[b], life)
    i18_drafts(history)
    i10_seeds(history)
    if config.target_logits:
        check_told(history)
    if batch.draft_uniforms is not None:
        i10_numbers(config, batch)


def section_10_lookup(history: History) -> None:
    """r is the schedule's value for this rank's rows, idle dummy included, padding not."""
    batch, k = history.batch, history.config.max_draft_len
    assert batch is not None
    r = scheduled(history.config, len(history.real) or 1)
    if r is None and batch.verify_lens is not None:
        r = k  # ragged steps draft whole blocks (section 14)
    if r is None and not 0 <= batch.draft_len <= k:
        broken("draft length lookup", f"0..{k}", batch.draft_len)
    if r is not None and batch.draft_len != r:
        broken("draft length lookup", r, batch.draft_len)


def scheduled(config: Config, rows: int) -> int | None:
    """The schedule's draft length for so many rows; None: there is no schedule.

    Told anew, as `captured` below: the engine looks both up in `reference/`, and may err there.
    """
    if config.draft_len_schedule is None:
        return None
    return next((r for threshold, r in config.draft_len_schedule if threshold >= rows), 0)


def section_11_padding(history: History) -> None:
    """Dummies stand last, and there are exactly as many of them as there must be."""
    batch, config = history.batch, history.config
    assert batch is not None
    r, real, scratch = batch.draft_len, len(history.real), config.max_num_requests
    size = real or 1
    if batch.mode == "replay":
        if batch.contexts:
            broken("padding", "a replay of generations", f"{len(batch.contexts)} contexts")
        size = graph_rows(config, batch, real)
    if batch.rank_rows is not None:
        size = len(batch.rows)  # padded for the largest rank: properties/ranks.py
    if len(batch.rows) != size:
        broken("padding", f"{size} rows", len(batch.rows))
    for g in range(real - len(batch.contexts), len(batch.generations)):
        request_id = PADDING_ID_BASE - r if real or g else IDLE_ID
        dummy = GenerationRow(request_id, 0, scratch, r)
        if batch.generations[g] != dummy:
            broken("padding", dummy, batch.generations[g], row=len(batch.contexts) + g)
        window = 1 if batch.verify_lens is None else batch.verify_lens[g]
        if window != 1 and batch.verify_bucket is None:
            broken("padding", "an anchor alone", window, row=len(batch.contexts) + g)
        if (drafts := batch.drafts[g * r : (g + 1) * r].tolist()) != [1] * r:
            broken("padding", f"drafts {[1] * r}", drafts, row=len(batch.contexts) + g)


def graph_rows(config: Config, batch: Batch, real: int) -> int:
    """Rows of the graph for a batch of generations, so many of them real; 0: there is none."""
    if batch.verify_budget is not None:
        shape = captured_shape(config, (real, batch.verify_budget))
        return shape[0] if shape else 0
    sizes, r = config.graph_batch_sizes, batch.draft_len
    return next((n for n in sizes if n >= (real or 1) and captured(config, n, r)), 0)


def captured(config: Config, size: int, r: int) -> bool:
    """Whether there is a graph for so many rows at this draft length."""
    largest = (config.graph_batch_sizes[-1], config.max_draft_len)
    return scheduled(config, size) in (None, r) or (size, r) == largest


def i9_sizes(config: Config, batch: Batch, widths: list[int]) -> None:
    """Every packed array has as many rows as its owners take up, within what was agreed on."""
    r, k, contexts = batch.draft_len, config.max_draft_len, len(batch.contexts)
    g, rows = len(batch.generations), widths[contexts:]
    if len(rows) != g or not all(1 <= width <= 1 + r for width in rows):
        broken("I9", f"{g} verify windows within 1..{1 + r}", rows)
    if sum(widths) > config.max_num_tokens:
        broken("I9", f"at most {config.max_num_tokens} token rows", sum(widths))
    logits = sum(rows)
    sampling = config.use_rejection_sampling and not all(row.greedy for row in batch.rows)
    given = sampling and not config.drawn_uniforms
    wanted = {
        "drafts": g * r,
        "target_tokens": contexts + logits,
        "hidden": sum(widths) * ROW_COMPONENTS,
        "target_probs": logits * config.vocab_size * sampling,
        "accept_uniforms": g * r * given,
        "recover_uniforms": g * given,
        "draft_uniforms": g * k * given,
    }
    if config.target_logits:
        wanted |= sizes(batch, contexts + logits, config.vocab_size)
    for name, size in wanted.items():
        if len(getattr(batch, name) or ()) != size:
            broken("I9", f"{size} numbers in {name}", len(getattr(batch, name) or ()))


def i9_hidden(history: History) -> None:
    """Every hidden row says that it is its owner's, of the right position, fed in this step."""
    batch, wanted = history.batch, b"".join(history.hidden)
    assert batch is not None and batch.hidden is not None
    found = batch.hidden.tobytes()
    if found != wanted:
        index = next(i for i, byte in enumerate(wanted) if found[i] != byte) // ROW_COMPONENTS
        rows = Frames(wanted).part(index, 1), Frames(found).part(index, 1)
        broken("I9", f"token row {index}: {rows[0][0]}", rows[1][0])


def i9_owners(history: History) -> None:
    """Every row is that of a request or a dummy; no request and no sequence slot has two."""
    batch, config = history.batch, history.config
    assert batch is not None
    ids = {row.request_id for _, row, _ in history.real}
    places = {row.seq_slot for _, row, _ in history.real}
    if not len(ids) == len(places) == len(history.real):
        broken("I9", "a row and a sequence slot each", [row for _, row, _ in history.real])
    if places and not 0 <= min(places) <= max(places) < config.max_num_requests:
        broken("I9", f"sequence slots below {config.max_num_requests}", sorted(places))


def i13_delivered(history: History) -> None:
    """Nobody who still lives was denied what the last step brought."""
    for incarnation, (step, tokens) in history.undelivered.items():
        life = history.lives[incarnation]
        if tokens and life.over is None:
            told = f"the result of step {step}: {tokens}"
            broken("I13", told, "no delivery", of=life)
    history.withheld()


def i13_alive(row: ContextRow | GenerationRow, life: Life) -> None:
    """Only a live incarnation is fed, under the id and by the rule that it came with."""
    if row.request_id != life.request_id:
        broken("I13", f"request {life.request_id}", row.request_id, of=row)
    if life.over is not None:
        broken("I13", "a live request", f"one that {life.over}", of=row)
    if life.ended:
        broken("I14", "a request that goes on", life.output, of=row)
    if life.lost:
        broken("I19", "a request no step of which failed", "another step of it", of=row)
    if row.greedy == life.sampled:
        broken("I8", f"greedy: {not life.sampled}", row.greedy, of=row)


def i5_position(history: History, row: ContextRow | GenerationRow, life: Life) -> None:
    """Positions move on by what was fed and accepted; an anchor is the last committed token.

    A late batch goes on from what the last one has brought, whole, though nobody was given it yet.
    """
    anchor = life.length + history.ahead(life) - 1
    if isinstance(row, ContextRow):
        end = row.first_position + row.length
        if row.first_position != life.next_position:
            broken("I4", life.next_position, row.first_position, of=row)
        if end > life.length:
            broken("I4", f"a chunk within {life.length}", end, of=row)
    elif row.position != life.next_position:
        broken("I5", life.next_position, row.position, of=row)
    elif row.position != anchor:
        broken("I4", anchor, row.position, of=row)


def i17_reserved(
    history: History, b: int, row: ContextRow | GenerationRow, reserved: int | None, life: Life
) -> None:
    """Reserved target rows reach the furthest write of this step, and not beyond its tokens.

    A host that does not know yet what a step in flight brings may have reserved K + 1 more.
    """
    furthest = history.furthest(row)
    most = max(furthest, life.length)
    if life.incarnation in history.undelivered and isinstance(row, GenerationRow):
        most = max(furthest, furthest - history.ahead(life) + history.config.max_draft_len + 1)
    if reserved is None or not furthest <= reserved <= most:
        broken("I17", f"{furthest}..{most} rows", reserved, row=b, of=row)


def i18_drafts(history: History) -> None:
    """The drafts verified are those proposed for this request in the last step, or placeholders."""
    batch = history.batch
    assert batch is not None
    r, contexts = batch.draft_len, len(batch.contexts)
    for b, row, life in history.real[contexts:]:
        assert isinstance(row, GenerationRow)
        wanted = life.drafts[:r]
        if row.proposed != len(wanted):
            broken("I18", f"{len(wanted)} proposed", row.proposed, row=b, of=row)
        if wanted and row.seq_slot != life.seq_slot:
            found = f"those of {row.seq_slot}"
            broken("I18", f"p rows of {life.seq_slot}", found, row=b, of=row)
        base = (b - contexts) * r
        drafts = batch.drafts[base : base + r].tolist()
        wanted += [0] * (r - len(wanted))
        if drafts != wanted:
            broken("I18", wanted, drafts, row=b, of=row)


def i10_seeds(history: History) -> None:
    """A request draws from its own seed all its life."""
    assert history.batch is not None
    for b, row, life in history.real[len(history.batch.contexts) :]:
        wanted = seed(life.incarnation)
        if isinstance(row, GenerationRow) and row.seed != wanted:
            broken("I10", f"seed {wanted}", row.seed, row=b, of=row)


def i10_numbers(config: Config, batch: Batch) -> None:
    """Random numbers belong to (incarnation, position, purpose), whatever the batch is like."""
    assert batch.accept_uniforms is not None
    assert batch.recover_uniforms is not None and batch.draft_uniforms is not None
    r, k = batch.draft_len, config.max_draft_len
    for g, row in enumerate(batch.generations):
        own, p = row.incarnation, row.position
        for name, found, wanted in (
            ("accept", batch.accept_uniforms[g * r : (g + 1) * r], (ACCEPT, r)),
            ("recover", batch.recover_uniforms[g : g + 1], (RECOVER, 1)),
            ("draft", batch.draft_uniforms[g * k : (g + 1) * k], (DRAFT, k)),
        ):
            purpose, count = wanted
            numbers = [uniform(own, p + i, purpose) for i in range(count)]
            if found.tolist() != numbers:
                broken("I10", f"to {name}: {numbers}", found.tolist(), of=row)
