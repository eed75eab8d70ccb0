"""Runs a study: boots, chains, what fits the budget, and what happens when an arm fails."""

from kvantage.runner.boot import Stopping
from kvantage.runner.estimate import ASSUMED, Clock, fitting
from kvantage.runner.prepared import Prepared, PreparedArm, Selection, prepare
from kvantage.runner.run import Outcome, run_study

__all__ = [
    "ASSUMED",
    "Clock",
    "Outcome",
    "Prepared",
    "PreparedArm",
    "Selection",
    "Stopping",
    "fitting",
    "prepare",
    "run_study",
]
