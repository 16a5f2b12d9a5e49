"""The DSpark draft model of section 8b on torch tensors."""
