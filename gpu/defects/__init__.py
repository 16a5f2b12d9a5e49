"""The same worker with one planted fault each."""
