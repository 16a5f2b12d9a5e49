"""Triton kernels, each the twin of an eager function of `gpu/` that its launcher names.

`loading.prepare` comes first: importing any other module here imports Triton, and Triton decides
at its import whether kernels are compiled or interpreted. Every launch goes through
`launching.launch`.
"""
