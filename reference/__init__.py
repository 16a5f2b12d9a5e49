"""The specification as code: pure Python, standard library only, written for reading."""
