"""From what a trace or a command line names to what is tested."""

from __future__ import annotations

import argparse

from draftproof.fuzz.cases import Subject
from draftproof.fuzz.defects.catalogue import CATALOGUE, ENGINE_DEFECTS
from draftproof.fuzz.ranks.cases import RankSubject
from draftproof.fuzz.ranks.defects import RANK_CATALOGUE, RankDefect
from draftproof.fuzz.supervise import Beacon
from draftproof.reference.vocabulary import ConfigError
from draftproof.sim.divergence import Divergence
from draftproof.sim.engine import Engine
from draftproof.sim.errors import FileError, ImplementationError
from draftproof.sim.loading import load
from draftproof.sim.rank_engine import RankEngine, agree
from draftproof.sim.run import MakeEngine
from draftproof.sim.traces import Trace


def subject_of(trace: Trace, arguments: argparse.Namespace, beacon: Beacon) -> Subject:
    """The trace's own implementation, or the one given on the command line instead."""
    name = arguments.implementation or trace.implementation
    options = arguments.option or ({} if arguments.implementation else trace.options)
    device = arguments.device or trace.device
    make = load(name, device, options) if name else None
    if trace.ranks:
        defect = _rank_defect(trace)
        engine, terms = (RankEngine, agree) if defect is None else (defect.engine, defect.agree)
        timeout, alive = arguments.step_timeout, beacon.beat
        return RankSubject(make, engine, timeout, alive, live=defect is None, agree=terms)
    engine = _engine(trace)
    # Many a faulty engine leaves a request stuck as well; its trace is about what it stands for.
    live = trace.engine_defect is None or CATALOGUE[trace.engine_defect].live
    return Subject(make, engine, arguments.step_timeout, beacon.beat, live)


def failure_of(subject: Subject, trace: Trace) -> Divergence | None:
    """What goes wrong in a trace, or None. Raises ImplementationError if it cannot be run."""
    try:
        return subject.failure(trace)
    except ConfigError as error:
        raise ImplementationError(
            f"the implementation does not support the configuration of the trace: {error}"
        ) from error


def _rank_defect(trace: Trace) -> RankDefect | None:
    if trace.engine_defect is not None and trace.engine_defect not in RANK_CATALOGUE:
        raise FileError(f"the trace names an unknown defect of ranks {trace.engine_defect!r}")
    return RANK_CATALOGUE.get(trace.engine_defect or "")


def _engine(trace: Trace) -> MakeEngine:
    if trace.engine_defect is None:
        return Engine
    if trace.engine_defect not in ENGINE_DEFECTS:
        raise FileError(f"the trace names an unknown engine defect {trace.engine_defect!r}")
    return ENGINE_DEFECTS[trace.engine_defect]
