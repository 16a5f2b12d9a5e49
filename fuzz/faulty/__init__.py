"""Serving engines with one planted fault each, as public reports have them.

drafts.py     which drafts are verified for whom
results.py    what a result does to a request, and to whom
requests.py   who is served, and what is fed for them
counts.py     what is published of it

Model and implementation get the same wrong batch, so comparing them shows nothing.
"""
