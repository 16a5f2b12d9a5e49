"""How many examples a Hypothesis test draws: a share of what the profile says."""

from hypothesis import settings


def share(of_the_profile: float) -> settings:
    """So that a costly test stays fast, and `nightly` still means more of everything."""
    return settings(max_examples=max(1, round(settings().max_examples * of_the_profile)))
