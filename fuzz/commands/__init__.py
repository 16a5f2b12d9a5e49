"""One module per command; each has `run(arguments) -> exit code`."""
