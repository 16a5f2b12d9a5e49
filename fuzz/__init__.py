"""Campaigns and the command line: the top of the import chain.

cli.py, commands/   the command line; supervise.py, report.py, summary.py: what all of it shares
cases.py            one case: run, and judged by every oracle there is
driving/            drivers: where the choices of a campaign come from
coverage/           the points that must sometimes happen
campaign/           `draftproof fuzz`: corpus, processes, machines
explore/            `draftproof explore`
failures.py         what happens to a failing case; shrink.py, simpler.py: it is made minimal
defects/            planted defects, and what each takes to be found
ranks/              all of that for several ranks, and `draftproof faults`
mutation/           a check of the checker
lossless/           whether sampled output keeps the target's law
bench/, gpu_check/  measurements, and what has to be seen on a GPU
"""
