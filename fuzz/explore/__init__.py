"""Every schedule of a small scope, in lockstep, with exact counts.

scope.py    how much is explored, and the moves from a state
states.py   when two states are the same: exactly, or up to the names of requests and slots
search.py   breadth first, so that the first failure is a shortest one
"""
