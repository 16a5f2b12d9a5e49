"""The DSpark implementation under test, on torch tensors.

worker.py is the worker, a step at a time; operations.py says what it asks of the device, in eager
torch, and kernels/ the same in Triton; memory.py is what it keeps there, inputs.py what a batch
brings, graphs.py how a step is replayed. draft_model/ is a real draft model, which needs no state.
"""
