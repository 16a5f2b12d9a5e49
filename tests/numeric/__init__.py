"""The true mathematics of section 8b: by hand, in float64, on torch, and one step of each."""
