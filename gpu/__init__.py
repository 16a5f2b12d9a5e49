"""The DSpark implementation under test, on torch tensors."""
