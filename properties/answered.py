"""What must hold of a worker's answer, and of what is handed on: I5-I8, I13, I14, I17, I18, I20."""

from __future__ import annotations

from draftproof.properties.broken import broken
from draftproof.properties.guided import check_chosen
from draftproof.properties.history import History, Life
from draftproof.reference.vocabulary import Batch, Config
from draftproof.sim.journal import Delivered, Departed
from draftproof.sim.target import plain_decode, prompt_token

# The answer to a batch


def check_result(history: History) -> None:
    """Raise the Divergence of the first invariant that the answer breaks."""
    batch, result = history.batch, history.result
    assert batch is not None and result is not None
    contexts, r, logit_row = len(batch.contexts), batch.draft_len, 0
    for b, row in enumerate(batch.rows):
        width = 1 if b < contexts else history.widths[b]
        n, proposals = result.new_tokens_lens[b], list(result.next_draft_tokens[b])
        if not 1 <= n <= width:
            broken("I5", f"1..{width} tokens", n, row=b, of=row)
        tokens = list(result.new_tokens[b][:n])
        drafts = batch.drafts[(b - contexts) * r : (b - contexts) * r + n - 1].tolist()
        if b >= contexts and tokens[:-1] != drafts:
            broken("I6", f"accepted: {drafts}", tokens[:-1], row=b, of=row)
        if batch.target_logits is not None:
            check_chosen(history, b, logit_row, tokens)
        elif b < contexts or batch.target_probs is None:
            i7_target(batch, logit_row, tokens, b)
        else:
            i8_support(history.config, batch, logit_row - contexts, tokens, b)
        if batch.target_probs is None and n < width:
            rejected = batch.drafts[(b - contexts) * r + n - 1]
            if rejected == tokens[-1]:
                broken("longest prefix", f"more than {drafts} accepted", tokens, row=b, of=row)
        logit_row += width
        if len(proposals) != r:
            broken("I20", f"{r} proposals", len(proposals), row=b, of=row)
        if b < contexts and any(proposals):
            broken("I18", f"placeholders {[0] * r}", proposals, row=b, of=row)
        if list(result.next_new_tokens[b]) != [tokens[-1], *proposals]:
            next_block = list(result.next_new_tokens[b])
            broken("I18", [tokens[-1], *proposals], next_block, row=b, of=row)


def i7_target(batch: Batch, logit_row: int, tokens: list[int], b: int) -> None:
    """Under the strict rule every token is the one that the target itself answered there."""
    answer = batch.target_tokens[logit_row : logit_row + len(tokens)].tolist()
    if tokens != answer:
        broken("I7", f"the target's {answer}", tokens, row=b, of=batch.rows[b])


def i8_support(config: Config, batch: Batch, logit_row: int, tokens: list[int], b: int) -> None:
    """No token comes out that the target gives no mass; so a greedy row gives the target's own."""
    assert batch.target_probs is not None
    for i, token in enumerate(tokens):
        if not batch.target_probs[(logit_row + i) * config.vocab_size + token] > 0:
            broken("I8", "a token of the target's", token, position=i, row=b, of=batch.rows[b])


# What of it was handed to whom


def check_delivery(history: History, entry: Delivered) -> None:
    """I13, I14, I20 and I7 for the tokens that one request was given."""
    life = history.lives[entry.incarnation]
    if life.over is not None:
        broken("I13", "a live request", f"one that {life.over}", of=entry)
    if entry.request_id != life.request_id:
        broken("I13", f"request {life.request_id}", entry.request_id, of=entry)
    step, tokens = history.undelivered.pop(entry.incarnation, (None, []))
    if step != entry.step:
        broken("I13", f"a result of step {step}", f"one of step {entry.step}", of=entry)
    given = list(entry.tokens)
    if not given or given != tokens[: len(given)]:
        broken("I20", tokens, given, of=entry)
    i14_end(life, given)
    i7_plain_decode(history.config, life, given)
    life.output += given
    life.length += len(given)
    life.dropped = tokens[len(given) :]
    if len(given) < len(tokens) and not life.ended:
        broken("I20", "no token dropped", f"{len(tokens) - len(given)} dropped", of=entry)
    kept = max(life.length, history.reach(life))
    if entry.kept != kept:
        broken("I17", f"{kept} rows kept", entry.kept, of=entry)


def i14_end(life: Life, given: list[int]) -> None:
    """Nothing is emitted behind the stop token or the limit."""
    total = len(life.output) + len(given)
    if total > life.limit:
        broken("I14", f"at most {life.limit} tokens", total, of=life)
    if life.stop is not None and life.stop in (*life.output[-1:], *given[:-1]):
        broken("I14", f"nothing after {life.stop}", [*life.output, *given], of=life)


def i7_plain_decode(config: Config, life: Life, given: list[int]) -> None:
    """Autonomous greedy output is what the target alone would have said, token by token."""
    if config.target != "autonomous":
        return
    position, v = life.length - 1, config.vocab_size
    token = life.output[-1] if life.output else prompt_token(life.incarnation, position, v)
    plain = plain_decode(life.incarnation, position, token, v, len(given))
    if plain != given:
        broken("I7", plain, given, oracle="plain decode", position=position, of=life)


def check_departure(history: History, entry: Departed) -> None:
    """A request departs once; it finishes at its stop token or limit, and nowhere else."""
    life = history.lives[entry.incarnation]
    if life.over is not None:
        broken("I13", "one departure", f"again: {life.over}", of=life)
    if entry.reason == "finished" and not life.ended:
        broken("I14", "an end at stop or limit", f"{len(life.output)} tokens", of=life)
    life.over = entry.reason
