"""Whether sampled output keeps the target's law.

law.py          every setting, the planted defects, and the page docs/lossless.md
decoding.py     sampled decoding through a whole worker
chi_square.py   counts against a known law
"""
