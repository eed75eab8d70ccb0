"""The study's database: append as it happens, resume, read as columns."""

from kvantage.ledger.ledger import FILE, Boot, Chain, Ledger
from kvantage.ledger.read import read_study
from kvantage.ledger.schema import CLOSING

__all__ = ["CLOSING", "FILE", "Boot", "Chain", "Ledger", "read_study"]
