"""How exactly this machine times streams: the client against a server whose truth is known."""

from kvantage.calibrate.calibration import Calibration
from kvantage.calibrate.kept import load_stored, machine, place, store
from kvantage.calibrate.load import FULL, QUICK, Load
from kvantage.calibrate.measuring import calibrate, ensure, measure
from kvantage.calibrate.row import Row, Spread

__all__ = [
    "FULL",
    "QUICK",
    "Calibration",
    "Load",
    "Row",
    "Spread",
    "calibrate",
    "ensure",
    "load_stored",
    "machine",
    "measure",
    "place",
    "store",
]
