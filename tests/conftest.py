"""Settings for all tests."""

from hypothesis import HealthCheck, settings

# No deadline: a loaded machine is no fault. Derandomised: a red build says something about the code.
settings.register_profile(
    "srl", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("srl")
