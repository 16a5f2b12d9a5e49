"""The world around the step: choices, events, requests, engine, journal, traces, lockstep.

Read in this order: choices.py, configs.py and events.py make a schedule; run.py plays it with
engine and model alone; lockstep.py folds an implementation over that and compares (compare.py,
refusals.py, drafting.py); players.py leads one with nobody comparing.

the engine      engine.py, its requests.py, roster.py and views.py; scheduling.py, assembly.py and
                packing.py make a batch, warmups.py those that leave no trace; journal.py records
the target      target.py, logits.py; grammars.py and guide.py for guided decoding
confidences     artefacts.py, snapshots.py, outcomes.py
what can fail   faults.py, blame.py, liveness.py
ranks           ranks.py, rank_engine.py, rank_events.py; disaggregated.py for two servers
published       statistics.py
files           traces.py, recordings.py, recording_file.py, files.py; loading.py: factories
a draft model   numeric.py, numeric_door.py, numeric_error.py
for people      divergence.py, errors.py, shapes.py
"""
