"""The true drafter of section 8b in float64: lists of numbers, written for reading."""
