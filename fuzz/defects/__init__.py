"""The catalogue of planted defects, and what each takes to be found.

catalogue.py   every defect; those of one kind are in reported.py, scheduling.py, disturbed.py
defect.py      what a planted defect is; workers are in gpu/defects/
engines/       serving engines with one planted fault each
finding.py     the first failing case, by seeds and by Hypothesis
measuring.py   how soon, by which oracle, and how small the case becomes
serving.py     whether the output alone would have shown it
reports.py     the public bug reports
found.py       which of them that covers: docs/found.md
"""
