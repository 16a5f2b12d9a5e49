"""The figures of `draftproof bench` (`docs/bench.md`): one module per part of the table."""
