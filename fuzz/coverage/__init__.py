"""What has happened at least once: coverage of behaviour, seen in runs of engine and model alone.

catalogue.py   the points that must sometimes happen, each by its name
lives.py       what the journal says about each request
matrix.py      points that make up a table: ways to accept a row, lengths, grammars, prompts
moments.py     which points a step, a departure, a warm-up is
owners.py      whose a slot or an id was before, and when
sequences.py   points of long sequences: drafts, none, drafts again, with a failure in between
rare.py        points that hardly ever happen by chance, to compare drivers by
ranks.py       points of several ranks, who does what beside whom; of campaigns over ranks
observe.py     goes through a run and collects points and transitions
abstract.py    the abstraction whose transitions guide a campaign
tally.py       counts over many runs, and their report
"""
