"""Long campaigns: on many cores or machines, killed at any time, and their silence means something.

corpus.py     the traces worth keeping, in a folder that is whole at any moment
minimal.py    makes a trace smaller that keeps its points, and a corpus that keeps its coverage
chunks.py     a piece of a campaign, which is the same wherever it runs
total.py      what a campaign adds up to, in the order of its chunks
pool.py       worker processes on this machine
on_ray.py     the same on a Ray cluster
"""
