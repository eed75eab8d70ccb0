"""kvantage in Python: `kvantage.open_run`, `kvantage.run_study`, `kvantage.plan`."""

from kvantage.api.measure import run_study
from kvantage.api.plan import Planned, plan
from kvantage.api.run import Run, open_run

__all__ = ["Planned", "Run", "open_run", "plan", "run_study"]
