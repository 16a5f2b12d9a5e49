"""Serving engines with one planted fault each, many as public reports have them.

drafts.py      which drafts are verified for whom, and how many
results.py     what a result does to a request, and to whom
requests.py    who is served, and what is fed for them
planning.py    by which confidences the next step is planned
counts.py      what is published of all that
disturbed.py   what shows when steps are disturbed

Model and implementation get the same wrong batch, or agree on a result that goes astray later, so
comparing them shows nothing: invariants and plain decoding must find these.
"""
