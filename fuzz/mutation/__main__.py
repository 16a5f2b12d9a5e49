"""`python -m draftproof.fuzz.mutation`: which mutants of worker, model and engine go unseen.

It is no command of `draftproof`, for it needs the project's tests: run it in the repository.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

from draftproof.fuzz.mutation import report, survivors
from draftproof.fuzz.mutation.children import Task, Verdict, judged
from draftproof.fuzz.mutation.mutants import mutants
from draftproof.fuzz.mutation.oracles import ORACLES, import_libraries
from draftproof.fuzz.mutation.schedules import campaign
from draftproof.fuzz.mutation.scope import SIDES
from draftproof.sim.errors import DraftproofError, UsageError
from draftproof.sim.files import write_whole

SURVIVED = 6
WRONG = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0; 1 if an oracle objects to the project as it is; 6 if the list is not right."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads do not outlive a fork
    try:
        return run(_parser().parse_args(argv))
    except DraftproofError as error:
        print(f"draftproof: {error}", file=sys.stderr)
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m draftproof.fuzz.mutation")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="which ones (all)")
    parser.add_argument("--side", choices=[side.name for side in SIDES], help="all files of it")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="a fixed one in N (1)")
    parser.add_argument("--listed", action="store_true", help="only those that are in the list")
    parser.add_argument("--workers", type=int, default=2, choices=(1, 2), help="processes (2)")
    parser.add_argument(
        "--without", action="append", default=[], choices=ORACLES, help="switch an oracle off"
    )
    parser.add_argument("--save", type=Path, metavar="D", help="write mutation.json and .md there")
    parser.add_argument("--list", type=Path, default=survivors.LIST, help="the known survivors")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Judge the mutants that were asked for."""
    reasons, tasks = survivors.read(arguments.list), _tasks(arguments)
    sound = {task.side.name: replace(task, mutant=None) for task in tasks}
    for side, verdict in zip(sound, judged(list(sound.values()), 1), strict=True):
        if verdict.fate != "survived":
            print(f"{side}, as it is, is {verdict.fate} by {verdict.oracle}: {verdict.told}")
            return WRONG
    chosen = {
        name(task): task
        for task in tasks
        if task.mutant
        and task.mutant.chosen(arguments.every)
        and (name(task) in reasons or not arguments.listed)
    }
    found = judged(list(chosen.values()), arguments.workers, _Progress(len(chosen), reasons).tell)
    verdicts = dict(zip(chosen, found, strict=True))
    table = report.record(verdicts, reasons)
    mistakes = survivors.mistakes(reasons, verdicts, [name(task) for task in tasks])
    if not (arguments.files or arguments.listed):
        mistakes += report.below(table)
    print("\n".join([*report.lines(table), *mistakes]))
    if arguments.save is not None:
        command = "python -m draftproof.fuzz.mutation"
        command += f" --every {arguments.every}" if arguments.every > 1 else ""
        write_whole(report.as_json(table).encode(), arguments.save / "mutation.json")
        write_whole(report.markdown(table, command).encode(), arguments.save / "mutation.md")
    return SURVIVED if mistakes else 0


def _tasks(arguments: argparse.Namespace) -> list[Task]:
    """Every mutant of the files asked for, chosen or not. Raises UsageError for another file."""
    asked, tasks = set(arguments.files), list[Task]()
    strangers = asked - {path for side in SIDES for path in side.files()}
    if strangers:
        raise UsageError(f"{min(strangers)} is not mutated: see draftproof.fuzz.mutation.scope")
    import_libraries()
    cases = campaign()
    for side in SIDES:
        files = [path for path in side.files() if path in asked or not asked]
        if not files or arguments.side not in (None, side.name):
            continue
        oracles = tuple(oracle for oracle in side.oracles if oracle not in arguments.without)
        found = [one for path in files for one in mutants(path) if side.covers(one.name)]
        tasks += [Task(one, side, oracles, cases) for one in found]
    return tasks


def name(task: Task) -> str:
    """That of its mutant."""
    return task.mutant.name if task.mutant else task.side.name


class _Progress:
    """A line now and then: the same one again and again, if somebody looks."""

    def __init__(self, whole: int, reasons: Container[str]) -> None:
        self.whole = whole
        self.reasons = reasons
        self.looked_at = sys.stderr.isatty()
        self.next = monotonic()

    def tell(self, done: int, task: Task, verdict: Verdict) -> None:
        """So many are done, this one last. A new survivor is told at once: a run may take long."""
        if verdict.fate == "survived" and name(task) not in self.reasons:
            print(f"survived: {name(task)}", file=sys.stderr, flush=True)
        if monotonic() >= self.next or done == self.whole:
            self.next = monotonic() + (0.2 if self.looked_at else 30.0)
            end = "\r" if self.looked_at and done < self.whole else "\n"
            print(f"{done} of {self.whole} mutants", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
