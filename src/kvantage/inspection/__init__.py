"""What somebody's posted log, dump, capture or config says: recognised, read, and warned about."""

from kvantage.inspection.document import NAMES, Document
from kvantage.inspection.gather import Inspection, inspect
from kvantage.inspection.show import SCHEMA_VERSION, to_json, to_text

__all__ = ["NAMES", "SCHEMA_VERSION", "Document", "Inspection", "inspect", "to_json", "to_text"]
