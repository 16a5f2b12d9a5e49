"""Planned runs that pass, and what corrupts one fact of them."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import nan
from typing import Any

from planned.by_hand import START, scheduled
from schedules import play

from draftproof.reference.vocabulary import Batch, Config
from draftproof.sim.events import AnyEvent, Step, Submit
from draftproof.sim.journal import Fed, Look
from draftproof.sim.rank_events import On, Together
from draftproof.sim.ranks import replay_ranks
from draftproof.sim.run import Run

Corrupt = Callable[[Fed], Fed | None]
TABLE = ((4, 90.0), (9, 80.0), (11, 79.0), (24, 10.0))
TEMPERATURES = (2.0, 1.0, 0.5, 1.0, 1.0)


@cache
def passing_runs() -> list[Run]:
    """Planned steps of every kind: with and without budget, bucket, table, contexts, snapshot."""
    steps: list[AnyEvent] = [
        step
        for budget in (0, 2, 5, 9)
        for step in (
            Step(age=1, budget=budget, graph=True, accepts=(4, 0)),
            Step(age=2, budget=budget, broken=True),
            Step(age=0, budget=budget),
            Step(draft_len=0),
            Step(age=1, budget=budget),
            Step(),
        )
    ]
    mixed: list[AnyEvent] = [
        Submit(3, prompt=9, limit=9),
        Step(age=1, budget=3, chunk=2),
        Step(age=2, budget=4),
    ]
    configs: list[Config] = [
        scheduled(graph_batch_sizes=(4,), verify_buckets=(8, 14, 24)),
        scheduled(graph_batch_sizes=(4,), sts_temperatures=TEMPERATURES),
        scheduled(sps_table=TABLE),
        scheduled(min_verify_len=2, max_verify_len=4, verify_budget=1),
        scheduled(graph_batch_sizes=(1,), verify_buckets=(2,), sps_table=((2, 90.0),)),
        scheduled(sts_temperatures=(0.1,) * 5),
        scheduled(step_costs=tuple((tokens, 1 / rate) for tokens, rate in TABLE)),
        scheduled(sps_table=TABLE, early_stopping=True),
    ]
    runs = [play(config, *START, *steps, *mixed) for config in configs]
    return [*runs, beside_an_idle_rank(configs[0])]


def beside_an_idle_rank(config: Config) -> Run:
    """The idle rank of two: it follows its peer, which plans for a bucket, or verifies whole."""
    peer = [On(0, event) for event in START if not isinstance(event, Step)]
    steps = [Step(), Step(), Step(), Step(age=1, budget=2, graph=True), Step(graph=True)]
    rounds = [Together((step, Step(graph=True))) for step in steps]
    return replay_ranks(config, 2, [*peer, *rounds]).ranks[1]


def with_batch(fed: Fed, **changes: Any) -> Fed:
    return replace(fed, batch=replace(fed.batch, **changes))


def with_look(fed: Fed, **changes: Any) -> Fed | None:
    if fed.look is None or fed.look.confidences is None:
        return None
    return replace(fed, look=replace(fed.look, **changes))


def is_planned(batch: Batch) -> bool:
    return batch.verify_budget is not None


def stopping() -> list[Fed]:
    """What was fed where a table says when to stop."""
    runs = [run for run in passing_runs() if run.config.early_stopping]
    return [entry for run in runs for entry in run.journal.entries if isinstance(entry, Fed)]


def moved(fed: Fed, give: int, take: int, padded: bool = False) -> Fed | None:
    """Windows of a planned step with one draft more for `give`, and one less for `take`."""
    windows = list(fed.batch.verify_lens or ())
    if not is_planned(fed.batch) or padded != (fed.batch.verify_bucket is not None):
        return None
    windows[give] += 1
    windows[take] -= 1
    return with_batch(fed, verify_lens=tuple(windows))


def not_scheduled(fed: Fed) -> Fed | None:
    return replace(fed, look=None) if fed.look else None


def scheduled_unasked(fed: Fed) -> Fed | None:
    return None if fed.look else replace(fed, look=Look(1))


def planned_unasked(fed: Fed) -> Fed | None:
    return None if fed.look else with_batch(fed, verify_budget=1)


def planned_beside_contexts(fed: Fed) -> Fed | None:
    return with_batch(fed, verify_budget=1) if fed.look and fed.batch.contexts else None


def ready_too_soon(fed: Fed) -> Fed | None:
    look = fed.look
    if look is None or look.age:
        return None
    return replace(fed, look=replace(look, confidences=((1.0,) * 5,) * 3))


def windows_without_a_snapshot(fed: Fed) -> Fed | None:
    empty = fed.look and fed.look.age == 0
    return with_batch(fed, verify_lens=(2, 2, 2)) if empty else None


def snapshot_overlooked(fed: Fed) -> Fed | None:
    if with_look(fed) is None or is_planned(fed.batch):
        return None
    blind = with_batch(fed, verify_lens=None)
    return replace(blind, look=Look(1))


def snapshot_of_others(fed: Fed) -> Fed | None:
    rows = fed.look.confidences if fed.look else None
    different = rows and rows[0] != rows[-1]
    return with_look(fed, confidences=(*rows[1:], rows[0])) if rows and different else None


def a_row_of_the_snapshot_missing(fed: Fed) -> Fed | None:
    rows = fed.look.confidences if fed.look else None
    return with_look(fed, confidences=rows[1:]) if rows else None


def another_budget(fed: Fed) -> Fed | None:
    return with_look(fed, budget=fed.look.budget + 100) if fed.look else None


def one_less_budget(fed: Fed) -> Fed | None:
    return with_look(fed, budget=fed.look.budget - 1) if fed.look and fed.look.budget else None


def more_budget_of_no_worth(fed: Fed) -> Fed | None:
    return with_look(fed, budget=1) if fed.look and not fed.look.budget else None


def a_hopeless_draft(fed: Fed) -> Fed | None:
    windows, budget = fed.batch.verify_lens or (), fed.batch.verify_budget or 0
    unspent = sum(windows) < 2 * len(windows) + budget
    if not unspent or fed.batch.verify_bucket or windows[0] > 5:
        return None
    return with_batch(fed, verify_lens=(windows[0] + 1, *windows[1:]))


def budget_of_the_worker(fed: Fed) -> Fed | None:
    budget = fed.batch.verify_budget
    return None if budget is None else with_batch(fed, verify_budget=budget + 1)


def no_bucket(fed: Fed) -> Fed | None:
    bucket = fed.batch.verify_bucket
    return with_batch(fed, verify_bucket=None) if bucket else None


def bucket_missed(fed: Fed) -> Fed | None:
    windows = fed.batch.verify_lens or ()
    if not fed.batch.verify_bucket or windows[0] == 6:
        return None
    return with_batch(fed, verify_lens=(windows[0] + 1, *windows[1:]))


def slack_to_another(fed: Fed) -> Fed | None:
    return moved(fed, 0, 1, padded=True)


def no_confidences(fed: Fed) -> Fed | None:
    return with_batch(fed, confidences=None) if is_planned(fed.batch) else None


def a_confidence_changed(fed: Fed) -> Fed | None:
    table = fed.batch.confidences
    return with_batch(fed, confidences=array("f", [x / 2 for x in table])) if table else None


def nothing_broken(fed: Fed) -> Fed | None:
    table = fed.batch.confidences
    if not table or not any(x != x for x in table):
        return None
    return with_batch(fed, confidences=array("f", [1.0 if x != x else x for x in table]))


def all_broken(fed: Fed) -> Fed | None:
    table = fed.batch.confidences
    return with_batch(fed, confidences=array("f", [nan] * len(table))) if table else None


def without_an_anchor(fed: Fed) -> Fed | None:
    windows = fed.batch.verify_lens or ()
    return with_batch(fed, verify_lens=(0, *windows[1:])) if is_planned(fed.batch) else None


def padding_verifies(fed: Fed) -> Fed | None:
    padded = is_planned(fed.batch) and fed.batch.generations[-1].incarnation == 0
    windows = fed.batch.verify_lens or ()
    free = padded and fed.batch.verify_bucket is None
    return with_batch(fed, verify_lens=(*windows[:-1], 2)) if free else None


def below_the_fewest(fed: Fed) -> Fed | None:
    windows = fed.batch.verify_lens or ()
    plain = is_planned(fed.batch) and fed.batch.verify_bucket is None
    return with_batch(fed, verify_lens=(1, *windows[1:])) if plain else None


def beyond_the_budget(fed: Fed) -> Fed | None:
    windows = fed.batch.verify_lens or ()
    if not is_planned(fed.batch) or fed.batch.verify_bucket or not 2 < windows[0] < 5:
        return None
    return with_batch(fed, verify_lens=(windows[0] + 1, *windows[1:]))


def beyond_what_pays(fed: Fed) -> Fed | None:
    """As many as the budget has, though the table says that fewer are worth it."""
    batch = fed.batch
    if not is_planned(batch) or batch.verify_bucket or fed not in stopping():
        return None
    windows, spent = batch.verify_lens or (), sum(batch.verify_lens or ())
    if spent >= 2 * len(windows) + (batch.verify_budget or 0) or windows[0] == 6:
        return None
    return with_batch(fed, verify_lens=(windows[0] + 1, *windows[1:]))


def budget_unspent(fed: Fed) -> Fed | None:
    windows = list(fed.batch.verify_lens or ())
    if not is_planned(fed.batch) or fed.batch.verify_bucket or max(windows[:3]) < 4:
        return None
    windows[windows.index(max(windows))] -= 1
    return with_batch(fed, verify_lens=tuple(windows))


def to_the_worse_draft(fed: Fed) -> Fed | None:
    first, second, *_ = (*(fed.batch.verify_lens or ()), 0, 0)
    return moved(fed, 0, 1) if second > 3 and first < 5 else None


def idle(fed: Fed) -> bool:
    return fed.batch.rank_rows is not None


def idle_rank_verifies(fed: Fed) -> Fed | None:
    g = len(fed.batch.generations)
    uniform = idle(fed) and fed.batch.verify_budget is None
    return with_batch(fed, verify_lens=(2,) * g) if uniform else None


def idle_rank_has_a_budget(fed: Fed) -> Fed | None:
    plans = idle(fed) and fed.batch.verify_budget == 0
    return with_batch(fed, verify_budget=1) if plans else None


CORRUPTIONS: list[tuple[str, Corrupt]] = [
    ("scheduling", not_scheduled),
    ("scheduling", scheduled_unasked),
    ("scheduling", planned_unasked),
    ("scheduling", planned_beside_contexts),
    ("snapshot", ready_too_soon),
    ("snapshot", windows_without_a_snapshot),
    ("snapshot", snapshot_overlooked),
    ("snapshot", snapshot_of_others),
    ("snapshot", a_row_of_the_snapshot_missing),
    ("budget", another_budget),
    ("budget", one_less_budget),
    ("budget", more_budget_of_no_worth),
    ("budget", budget_of_the_worker),
    ("bucket", no_bucket),
    ("bucket", bucket_missed),
    ("windows", slack_to_another),
    ("confidences", no_confidences),
    ("confidences", a_confidence_changed),
    ("confidences", nothing_broken),
    ("confidences", all_broken),
    ("windows", without_an_anchor),
    ("windows", padding_verifies),
    ("windows", below_the_fewest),
    ("windows", beyond_the_budget),
    ("windows", beyond_what_pays),
    ("windows", budget_unspent),
    ("windows", to_the_worse_draft),
    ("windows", a_hopeless_draft),
    ("windows", idle_rank_verifies),
    ("budget", idle_rank_has_a_budget),
]
