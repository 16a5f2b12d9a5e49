"""The points that must sometimes happen. A long campaign that misses one has a blind spot."""

from __future__ import annotations

from collections.abc import Iterator

from draftproof.fuzz.coverage.matrix import CELLS
from draftproof.sim.events import KINDS, Event
from draftproof.sim.faults import PLACES, SITES

MOST_DRAFTS = 7
"""The longest block that small sizes make (`draftproof.sim.configs`)."""
EVENTS = tuple(dict.fromkeys(str(kind.__struct_config__.tag) for kind in KINDS))
"""The kinds of events by their names in traces."""
FAR = (127, 250, 2047, 32_767, 65_535, 131_072)
"""Positions behind which a narrow type wraps, or the drafter's cycle of frames, or a table ends."""
SHAPES = ("prompt", "decoding", "mixed", "idle", "replayed", "warm-up", "capture")
"""What a step is that fails."""

IMPOSSIBLE = frozenset(
    {
        ("result", "warm-up"),  # its result is nobody's
        ("result", "capture"),
        ("stage", "prompt"),  # without generations nothing is drafted
        ("sample", "prompt"),
    }
)
"""Pairs of a place and a step that never passes it, which are no points."""

_SINGLE = {
    "length": {
        "zero between positive": "a request has drafts, none for some steps, then drafts again",
        "scheduled zero": "the schedule gives no drafts, the batch being too large",
        "scheduled rise": "the schedule gives a request more drafts than in its last step",
    },
    "sequence": {
        "of a server": "steps with drafts, two without, some with; a request is cancelled, a slot "
        "changes hands and a step fails meanwhile",
        "of a request": "one has drafts, none in two steps, then some; another one is cancelled, a "
        "slot changes hands and a warm-up fails meanwhile",
        "of a sampled request": "the same, the request not being greedy",
        "of a guided request": "the same, the request having a grammar",
    },
    "window": {
        "full to the last column": "a chunk or an accepted run just fills the window",
        "wraps in a chunk": "a prompt chunk pushes frames out",
        "wraps in a step": "accepted rows push frames out",
        "less than accepted": "more rows are accepted than the window holds",
        "not full": "a request decodes over a window that is not full",
        "one column": "W = 1, and a request decodes",
    },
    "slot": {
        "reused at once": "a slot changes hands from one step to the very next",
        "reused later": "a slot was free for some steps and then goes to another request",
        "all taken": "there is no free slot",
        "moved by a reset": "a request that starts again gets another slot",
        "kept by a reset": "a request that starts again gets its own slot back",
        "taken after a failure": "a slot of a failed request goes to another one",
    },
    "id": {
        "back at once": "an id stands for another life in the very next step",
        "back later": "an id comes back after steps without it",
        "back before delivery": "an id is submitted again while a result of its last life waits",
        "wide": "an id whose lower 32 bits say nothing",
        "last": "an id just below those of padding rows",
    },
    "recompute": {
        "while prefilling": "a request starts again before its prompt is through",
        "while decoding": "a decoding request starts again",
        "while left out": "a request starts again that has just been left out of a step",
        "in chunks": "a request that starts again needs several chunks",
        "twice": "a request starts again for the second time",
    },
    "cancel": {
        "while waiting": "a request leaves that was in no batch yet",
        "while prefilling": "a request leaves before its prompt is through",
        "while decoding": "a decoding request leaves, nothing of it being under way",
        "while left out": "a request leaves that was left out since it was paused",
        "before delivery": "a request leaves while its result is under way",
    },
    "finish": {
        "limit at the end": "the limit falls on the last accepted token",
        "limit inside": "accepted tokens beyond the limit are dropped",
        "stop at the end": "the stop token is the last accepted token",
        "stop inside": "accepted tokens behind the stop token are dropped",
        "first token": "a request ends with the token that its prompt brings",
    },
    "prompt": {
        "one chunk": "a prompt in one chunk",
        "several chunks": "a prompt in several chunks",
        "many chunks": "a prompt in five chunks or more",
        "reused in part": "a prompt that begins behind a cached prefix",
        "reused whole": "a prompt of which only the last token is computed",
        "imported": "a request that comes to decode, its prompt having run elsewhere",
        "longer than the window": "a prompt of more than W tokens is computed",
        "one token": "a prompt of one token",
        "within the budget": "a chunk is cut because the token budget is used up",
    },
    "pause": {
        "while prefilling": "a request is left out in the middle of its prompt, and returns",
        "while decoding": "a decoding request is left out and returns, its slot lost",
        "everybody": "an idle step although requests are admitted",
    },
    "batch": {
        "prompts only": "a step of prompts only",
        "decoding only": "a step of decoding requests only",
        "mixed": "a step of both",
        "idle": "a step of nobody",
        "full": "as many rows as requests are allowed",
        "several prompts": "two prompts or more",
        "large": "nine rows or more",
        "turned": "a request's row is another one than in its last step",
        "autonomous": "the target answers by its own law",
        "poisoned": "cleared memory is NaN",
        "stages": "five stages",
    },
    "ragged": {
        "decoding only": "verify windows in a step of decoding requests only",
        "mixed": "verify windows beside a prompt",
        "replayed": "verify windows in a replayed graph",
        "anchor alone": "a request verifies no draft though there are some",
        "all full": "every window is full",
        "of many lengths": "three different windows",
        "accepted to its end": "everything is accepted in a window that is not full",
        "uniform under scheduling": "a step without windows where there could be some",
        "planned": "the worker chooses the windows by its confidences",
        "planned and replayed": "it does so in a replayed graph",
        "planned by old confidences": "the host's snapshot is two steps older than the drafts",
        "planned blindly": "the host's snapshot is not ready",
        "planned by broken confidences": "a request's confidences are not finite",
    },
    "overlap": {
        "late step": "a batch is built before the results of the last one are handed over",
        "late step of a prompt": "the same, a prompt being in it",
        "late replay": "the same, in a replayed graph",
        "end unheard of": "a request is fed once more though its end is under way",
    },
    "logits": {
        "step": "the worker is given logits, and samples the target itself",
        "grammar": "a grammar restricts a row",
        "penalties": "penalties change a row",
        "both": "both in one row",
    },
    "graph": {
        "replayed without padding": "a replay of just the captured size",
        "replayed with padding": "a replay with padding rows",
        "replayed idle": "a replay of nobody",
        "replayed without drafts": "a replay at r = 0",
        "replayed at another length": "two replays in a row with different r",
        "replayed at another size": "two replays in a row of different sizes",
        "replayed after its capture": "a replay of what was captured before",
        "replayed uncaptured": "a replay that nobody captured",
        "replayed after a warm-up": "a replay just behind a warm-up",
        "replayed after a failure": "a replay just behind a failed step",
        "replayed, then eager": "an eager step just behind a replay",
        "asked for beside a prompt": "a graph was asked for, but there is a prompt",
    },
    "sampling": {
        "step": "a step with probabilities",
        "greedy beside sampled": "greedy and sampled rows in one such step",
        "all greedy": "a step without probabilities, of a worker that samples by rejection",
        "greedy, then sampled": "two steps in a row, the second one with probabilities",
        "sampled, then greedy": "the other way round",
        "placeholders": "r has grown: placeholders are tested against probabilities",
        "own numbers": "the worker draws its own random numbers",
        "narrow": "the drafter has fewer tokens than the target",
        "strict": "a sampled batch that is accepted by the strict rule",
    },
    "warm-up": {
        "with a prompt": "a warm-up with a prompt",
        "without drafts": "a warm-up at r = 0",
        "sampled": "a warm-up of rows that are not greedy",
        "under live names": "a warm-up whose rows bear the names of admitted requests",
        "before the first step": "a warm-up before anything else is fed",
        "before delivery": "a warm-up while results are under way",
        "after a failure": "a warm-up just behind a failed step",
        "capture": "a graph is captured",
        "capture under live names": "a graph is captured whose rows bear live names",
        "capture again": "a graph is captured for the second time",
    },
    "size": {
        "block": "a request has more than eight drafts to verify",
        "requests": "more than 32 requests decode in one step",
        "window": "a request decodes behind a window of more than 65 frames",
        "stages": "a block is drafted through more than five stages",
        "sampled": "probabilities are given for more than 64 tokens",
        "guided": "a grammar or penalties go over more than 64 tokens",
    },
    "failure": {
        "without drafts": "a step fails at r = 0",
        "twice": "two steps in a row fail",
        "of many": "a failed step takes three requests with it",
        "then the same id": "an id of a failed request is in the next batch",
        "with others waiting": "requests are waiting that the failure does not concern",
    },
}  # fmt: skip


def _points() -> Iterator[tuple[str, str]]:
    for family, points in _SINGLE.items():
        for name, sentence in points.items():
            yield f"{family}/{name}", sentence
    lengths = range(MOST_DRAFTS + 1)
    for r in lengths:
        for then in lengths:
            yield f"length/{r}->{then}", f"a decoding request's r is {r}, then {then}"
        for n in range(r + 1):
            yield f"accepted/{n} of {r}", f"{n} of {r} drafts to verify are accepted"
    for position in FAR:
        yield f"position/beyond {position}", f"a request decodes beyond position {position}"
    for before in EVENTS:
        for after in EVENTS:
            yield between(before, after), f"a warm-up behind a {before} and before a {after}"
    for place in PLACES:
        for shape in SHAPES:
            if (place, shape) not in IMPOSSIBLE:
                yield fault(place, shape), f"a fault at {place!r} in a {shape} step"
    yield from CELLS.items()
    for place, kind in SITES:
        yield f"fault/{kind} at {place}", f"{kind!r} is what goes wrong at {place!r}"


def between(before: str, after: str) -> str:
    """The name of a point: a warm-up between two events."""
    return f"warm-up/between {before} and {after}"


def fault(place: str, shape: str) -> str:
    """The name of a point: where which step fails."""
    return f"fault/{place} in a {shape} step"


def name_of(event: Event) -> str:
    """The kind of an event by its name in traces."""
    return str(event.__struct_config__.tag)


CATALOGUE: dict[str, str] = dict(_points())
"""Every point with a sentence that says when it is hit."""
