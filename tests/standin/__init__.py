"""Somebody else's worker, stood in for, and the door to it (docs/worker.md)."""
