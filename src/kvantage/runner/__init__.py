"""Runs a study: boots, chains, what fits the budget, and what happens when an arm fails."""

from kvantage.runner.blocks import in_order
from kvantage.runner.boot import Stopping
from kvantage.runner.estimate import Clock, assume, fitting
from kvantage.runner.prepared import Prepared, Selection, prepare
from kvantage.runner.run import Outcome, run_study
from kvantage.runner.way import PreparedArm

__all__ = [
    "Clock",
    "Outcome",
    "Prepared",
    "PreparedArm",
    "Selection",
    "Stopping",
    "assume",
    "fitting",
    "in_order",
    "prepare",
    "run_study",
]
