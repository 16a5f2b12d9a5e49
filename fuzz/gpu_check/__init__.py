"""`make gpu-check`: everything that has to be seen on a GPU once.

check.py     the parts in order, each in a process of its own, and the report
parts.py     those that are not commands already
timings.py   how long a step takes
"""
