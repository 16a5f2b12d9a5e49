"""The same campaign on a Ray cluster, when one machine is outgrown. Needs the extra `ray`.

Whoever runs a cluster gives its address in RAY_ADDRESS; without it a local one is started, which
listens on the loopback address only.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any

from draftproof.fuzz.campaign.chunks import Result, Task, work
from draftproof.fuzz.campaign.pool import TRIES, Failed
from draftproof.sim.errors import ImplementationError, UsageError


class RayPool:
    """As `draftproof.fuzz.campaign.pool.Pool`, with Ray's processes.

    A task that costs its process its life twice ends the campaign: what it was at is not known here
    (`--on local` says it).
    """

    def __init__(self, workers: int) -> None:
        """Raises UsageError if Ray is not here or there is no cluster at RAY_ADDRESS."""
        self.workers = workers
        self.replaced = 0
        self._ray = _ray()
        address = os.environ.get("RAY_ADDRESS")
        more: dict[str, Any] = {"address": address} if address else {"num_cpus": workers}
        if not address:
            more |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        try:
            self._ray.init(log_to_driver=False, logging_level="ERROR", **more)
        except (ConnectionError, ValueError) as error:
            raise UsageError(f"--on ray: no cluster at {address}: {error}") from error
        # A task is not tried again behind our back, and may be long.
        self._work = self._ray.remote(max_retries=0, num_cpus=1)(work)

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self._ray.shutdown()

    def run(self, tasks: Iterable[Task]) -> Iterator[Result | Failed]:
        """Messages as they come, not in the order of the tasks. Raises DraftproofError."""
        upcoming, again, running = iter(tasks), deque[Task](), dict[Any, Task]()
        deaths: Counter[int] = Counter()
        while True:
            while len(running) < self.workers:
                task = again.popleft() if again else next(upcoming, None)
                if task is None:
                    break
                running[self._work.remote(task)] = task
            if not running:
                return
            (ready, *_), _ = self._ray.wait(list(running), num_returns=1)
            task = running.pop(ready)
            try:
                result: Result = self._ray.get(ready)
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except self._ray.exceptions.RayError as error:
                self.replaced += 1
                deaths[task.number] += 1
                if deaths[task.number] >= TRIES:
                    raise ImplementationError(
                        f"chunk {task.number} cost {TRIES} worker processes their lives; "
                        f"--on local with the same seed says in which case: {error}"
                    ) from None
                again.append(task)
                continue
            yield from (Failed(trace) for trace in result.failing if not task.shrink)
            yield result


def _ray() -> Any:
    # Before the import: it is what makes Ray listen on the loopback address only.
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise UsageError("--on ray: Ray is not installed; pip install 'draftproof[ray]'") from error
    return ray
