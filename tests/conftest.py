"""What holds for every test: an example of Hypothesis may take as long as a machine makes it that is busy otherwise."""

from hypothesis import HealthCheck, settings

settings.register_profile("hotset", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hotset")
