"""Where servers run: started, watched and stopped, with nothing left behind."""

from kvantage.hosts.local import LocalHost

__all__ = ["LocalHost"]
