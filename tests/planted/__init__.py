"""Corrupted facts: each breaks one invariant of a run that holds them all."""
