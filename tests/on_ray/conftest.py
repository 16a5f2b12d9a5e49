"""These tests need the extra `ray`; without it they are not collected (README, Developing)."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("ray") else ["test_*.py"]
