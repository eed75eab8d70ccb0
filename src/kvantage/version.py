"""The version, apart, so that a room may ask for it without knowing the whole package."""

__version__ = "0.1.0"
