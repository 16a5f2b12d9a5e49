"""Several ranks: their cases and campaigns, their planted defects, and what was found.

cases.py       one case: a schedule for all ranks, run and judged
campaign.py    `draftproof check --ranks`
faults.py      `draftproof faults`
process.py     one rank in a process of its own, for `draftproof ranks`
failures.py    what happens to a failing case
defects.py     planted defects; measuring.py: how soon each is found; output.py: whether the output
               alone would have shown it
"""
