"""Which files are mutated, and what judges the mutants of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Files that are judged alike.

    oracles: by name, in the order in which they are asked; the first that objects ends it;
    left_out: files and folders of the folder, and functions (`file.py::name`), that are not
    mutated, each with the reason; only: which files of the folder are, None: all others; rest: of
    the files that `only` does not name, why.
    """

    name: str
    folder: Path
    oracles: tuple[str, ...]
    left_out: Mapping[str, str]
    only: Sequence[str] | None = None
    rest: str = ""

    def files(self) -> list[Path]:
        """What is mutated, in alphabetical order."""
        names = [path.name for path in sorted(self.folder.glob("*.py"))]
        chosen = names if self.only is None else self.only
        return [
            self.folder / name for name in names if name in chosen and name not in self.left_out
        ]

    def excluded(self) -> Iterator[tuple[str, str]]:
        """What is not mutated, for people, and why."""
        yield from ((f"`{self.folder / place}`", why) for place, why in self.left_out.items())
        if self.only is not None:
            yield f"the rest of `{self.folder}`", self.rest

    def covers(self, mutant: str) -> bool:
        """Whether a mutant of that name is in a function that is not left out."""
        return not any(
            mutant.startswith((f"{self.folder / place}::", f"{self.folder / place}."))
            for place in self.left_out
        )


HOST = "no step of the worker runs it; its twin in `reference/` is the host's (tests/confidence)"
CLASSES = "about classes, not about steps (tests/gpu)"
GIVEN = "drafts by a law that is given to it, to measure losslessness (tests/lossless)"
GPU = "on a GPU only"

WORKER = Side(
    "worker",
    Path("gpu"),
    ("lockstep",),
    {
        "__init__.py": "empty",
        "defects": "planted faults, each of which is found (tests/defects)",
        "draft_model": "of a real draft model, which no step of this worker runs; held against "
        "doubles, with planted faults (tests/numeric)",
        "kernels": "Triton twins, also of the state logic: each is held against its eager twin, "
        "bit for bit but for the sums of draft models, with planted faults (tests/kernels)",
        "capture_safety.py": "a tool that watches a worker's calls",
        "calibration.py": "fitted once, offline; no step runs it",
        "measured.py": "measures speed",
        "options.py": "reads the options of the command line",
        "dispatch.py": "imports kernels or not",
        "recorded_calls.py": "stands in for a CUDA graph where there is no GPU",
        "contract.py::DraftWorker.__init_subclass__": CLASSES,
        "contract.py::DraftWorker.conforming": CLASSES,
        "contract.py::_check_forward": CLASSES,
        "contract.py::placeholders": "of a pipeline rank without a drafter",
        "confidence.py::remember": HOST,
        "confidence.py::recall": HOST,
        "confidence.py::calibrated": HOST,
        "exact_drafter.py::fixed_argmax": GIVEN,
        "exact_drafter.py::fixed_sampled": GIVEN,
        "graphs.py::_beside": GPU,
        "graphs.py::captured_alone": "captures other paths than a worker's, for measurements",
        "graphs.py::_Cuda": GPU,
        "graphs.py::CudaGraph": GPU,
        "static.py::_Area.sent": GPU,
        "static.py::_Area.wait": GPU,
        "ragged.py::unpack": HOST,
        "ragged.py::bucket_fits": HOST,
        "ragged.py::agreed_shape": HOST,
        "scheduler.py::prefix_schedule": HOST,
        "scheduler.py::best_budget": HOST,
        "scheduler.py::_values": HOST,
    },
)

MODEL = Side(
    "model",
    Path("reference"),
    ("recordings", "journal", "pinned"),
    {
        "__init__.py": "empty",
        "artefacts.py": "what a file of a deployment looks like",
        "calibration.py": "fitted once, offline; no step runs it",
        "numeric": "the draft model in doubles, which no step runs (tests/numeric)",
        "vocabulary.py::Worker": "a protocol",
        "vocabulary.py::Drafter": "a protocol",
        "choosing.py::Matcher": "a protocol",
    },
)

ENGINE = Side(
    "engine",
    Path("sim"),
    ("journal", "pinned"),
    {"snapshots.py::Snapshots.newest": "for planted defects of the engine only"},
    (
        "assembly.py",
        "engine.py",
        "grammars.py",
        "logits.py",
        "packing.py",
        "requests.py",
        "scheduling.py",
        "snapshots.py",
        "target.py",
        "views.py",
        "warmups.py",
    ),
    "chooses schedules, of which any is as good as another, compares, or does files; what compares "
    "is held against faults planted by hand (tests/planted)",
)

SIDES = (WORKER, MODEL, ENGINE)

PINNED = ("tests/reference", "tests/guided", "tests/planned", "tests/confidence", "tests/sim")
"""Folders of pinned examples. Tests that load `gpu/` cannot be used, and are left out."""

NOT_PINNED = {
    "test_sim_check.py": "about the comparison, with workers that are wrong",
    "test_guided_schedules.py": "searches for schedules",
    "test_plans_red.py": "about invariants, with plans that are wrong",
    "test_confidence_outcomes.py": "about what is read off a run",
    "test_planned_often.py": "about random schedules",
    "test_sim_crash_safety.py": "starts processes of its own, without the mutant",
}

RECORDINGS = Path("tests/data/recordings")
STEPS, SEED = 2_000, 0
"""The seeded campaign that a mutant must not survive."""
