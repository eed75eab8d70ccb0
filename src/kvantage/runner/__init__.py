"""Runs a study: boots, chains, what fits the budget, and what happens when an arm fails."""

from kvantage.runner.boot import Stopping
from kvantage.runner.estimate import Clock, assume, fitting
from kvantage.runner.prepared import Prepared, PreparedArm, Selection, prepare
from kvantage.runner.run import Outcome, run_study

__all__ = [
    "Clock",
    "Outcome",
    "Prepared",
    "PreparedArm",
    "Selection",
    "Stopping",
    "assume",
    "fitting",
    "prepare",
    "run_study",
]
