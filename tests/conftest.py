"""Hypothesis profiles, for all tests.

dev       new random examples in every run; failures are remembered in `.hypothesis/`
ci        the same examples in every run, when CI is set; each test and each parameter its own
nightly   many more examples, random: pytest --hypothesis-profile=nightly
"""

import os
import zlib

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, seed, settings

settings.register_profile("dev", deadline=None, print_blob=True)
# Hypothesis's own profile for CI derandomizes: it draws the examples by the test function alone,
# so that the shards of a test, whichever worker of xdist runs them, all draw the same ones.
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=False,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("nightly", settings.get_profile("dev"), max_examples=2000)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """In CI, seed each test by its name: no worker, order or selection changes what it draws."""
    chosen = item.config.getoption("--hypothesis-seed", None)
    if settings.get_current_profile_name() != "ci" or chosen is not None:
        return
    if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
        test = getattr(item.obj, "__func__", item.obj)  # a method cannot be written to
        seed(zlib.crc32(item.nodeid.encode()))(test)
