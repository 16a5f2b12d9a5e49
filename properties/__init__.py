"""Invariants as plain functions over journal and states, and Hypothesis strategies on top."""
