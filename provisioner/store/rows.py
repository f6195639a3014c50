"""The type of a row as the store hands it out."""

from sqlalchemy.engine import RowMapping as Row

__all__ = ["Row"]
