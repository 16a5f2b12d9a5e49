"""The stand-in under random schedules, against the model; and its public defects put back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from torch import Tensor

from draftproof.reference.vocabulary import Collaborators, Config, Worker
from draftproof.sim.choices import Seeded
from draftproof.sim.configs import choose_config
from draftproof.sim.divergence import Divergence
from draftproof.sim.drafting import ATTENTION
from draftproof.sim.lockstep import Checked, check
from draftproof.sim.run import simulate
from standin.door import make
from standin.trtllm import DSv4DSparkDraftModel, DSv4DSparkWorker

NOT_SHOWN = {
    "attention_rows",
    "confidence_logits",
    "confidence_stamp",
    "draft_seq",
    "draft_probs",
    ATTENTION,
}


def on_cpu(config: Config, lent: Collaborators) -> Worker:
    return make(config, "cpu", lent)


def check_seed(seed: int) -> Checked:
    """One random schedule, in a configuration that the stand-in accepts."""
    choices = Seeded(seed)
    config, plain = choose_config(choices), Config(1, 1, 1, 1)
    names = ["confidence_scheduling", "use_rejection_sampling", "d2t", "drawn_uniforms"]
    names += ["target_logits", "min_verify_len", "max_verify_len", "verify_budget"]
    names += ["verify_buckets", "sts_temperatures", "sps_table", "step_costs", "early_stopping"]
    config = replace(config, **{name: getattr(plain, name) for name in names})
    return check(simulate(config, choices, 60), on_cpu)


@pytest.mark.parametrize("first_seed", range(0, 100, 25))
def test_it_agrees_with_the_model(first_seed: int) -> None:
    """If this fails, a correct worker with an interface of its own is called wrong."""
    for seed in range(first_seed, first_seed + 25):
        checked = check_seed(seed)
        assert checked.faults_without_seam <= 1  # at an optional seam; the run ends there
        assert checked.not_checked <= NOT_SHOWN


def unbounded_scratch(
    self: DSv4DSparkWorker, slots: Tensor, counts: Tensor, positions: Tensor
) -> tuple[Tensor, Tensor]:
    old = self._ctx_len[slots].where(self._position_initialized[slots], positions)
    self._ctx_len[slots] = old + counts
    self._valid_len[slots] = (self._valid_len[slots] + counts).clamp(max=self._win)
    self._position_initialized[slots] = True
    return old, old + counts


def oldest_wins(self: Any, hidden: Tensor, frames: Tensor, ring: Tensor) -> None:
    for row, frame in zip(hidden.flip(0), frames.flip(0).tolist(), strict=True):
        for stage in range(self.num_stages):
            ring[stage, frame % ring.shape[1]] = row
            ring[stage, frame % ring.shape[1], -1] = stage


def forgets_by_id(self: DSv4DSparkWorker, incarnations: dict[int, int]) -> None:
    for request_id in [i for i in self._req_to_slot if i not in incarnations]:
        self._release(request_id)


def nothing_saved(self: DSv4DSparkWorker) -> None:
    del self


@pytest.mark.parametrize(
    ("owner", "name", "defect", "signature"),
    [
        (DSv4DSparkWorker, "_advance_generation_state", unbounded_scratch, "comparison ctx_len"),
        (DSv4DSparkDraftModel, "write_context_windows", oldest_wins, "comparison windows"),
        # A live request that lent its name to a warm-up has moved on.
        (DSv4DSparkWorker, "_snapshot", nothing_saved, "comparison ctx_len"),
        (DSv4DSparkWorker, "_forget_departed", forgets_by_id, "comparison next_draft_tokens"),
    ],
    ids=["row 2", "row 3", "row 5", "row 11"],
)
def test_a_public_defect_is_found_through_the_door(
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    defect: Callable[..., object],
    signature: str,
) -> None:
    """If this fails, somebody else's worker may have a known defect and still pass."""
    monkeypatch.setattr(owner, name, defect)
    seen = set()
    for seed in range(100):
        with suppress(Divergence):
            check_seed(seed)
            continue
        seen.add(found(seed))
        if signature in seen:
            return
    pytest.fail(f"found by {seen}")


def found(seed: int) -> str:
    """How the schedule that is known to fail does."""
    with pytest.raises(Divergence) as caught:
        check_seed(seed)
    return " ".join(caught.value.signature)
