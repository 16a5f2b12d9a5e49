"""A check of the checker: mutants of the worker and of the oracle, which must not go unseen.

operators   the small changes that make a mutant, on the syntax tree
mutants     every mutant of a file, each with a name that outlives unrelated edits
scope       which files are mutated, which are not and why, and what judges them
planting    import a module with one change in it; nothing on disk changes
pinned      pinned examples: tests of the project as plain functions
oracles     what may kill a mutant
schedules   the seeded ones among them
children    a process for each mutant
survivors   the committed list of those that nothing sees
report      the table

    python -m draftproof.fuzz.mutation [--every N] [FILE...]
"""
