"""The study's database: append as it happens, resume, read as columns."""

from kvantage.ledger.held import at_work, whole_chains
from kvantage.ledger.ledger import Boot, Chain, Ledger
from kvantage.ledger.opening import FILE
from kvantage.ledger.read import read_study
from kvantage.ledger.schema import CLOSING

__all__ = ["CLOSING", "FILE", "Boot", "Chain", "Ledger", "at_work", "read_study", "whole_chains"]
