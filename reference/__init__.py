"""The specification as code: pure Python, standard library only, written for reading.

model.py is the worker, a step at a time; vocabulary.py has the words that everybody shares. Every
other file is a section or two of docs/semantics.md, which its first line names.
"""
