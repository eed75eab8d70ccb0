"""Shared machines stall: hypothesis counts no time here."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
