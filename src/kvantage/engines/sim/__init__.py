"""A simulated engine behind the engine contract, asked in the words of the one that it is like."""

from kvantage.engines.sim.engine import Sim

__all__ = ["Sim"]
