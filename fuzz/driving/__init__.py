"""What stands behind the choices in a campaign: drivers, each in a file of its own.

swarm.py       random weights for the kinds of events, drawn anew for each case
exhaustive.py  every sequence of choices in turn
wide.py        now and then a case with one size that is large
raw.py         bytes from outside, through Hypothesis
contest.py     how soon each driver meets rare points
"""
