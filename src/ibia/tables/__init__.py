"""Array memory and the operations on it: the only part of the package that loops over table entries."""

from ibia.tables.table import Scope, Space, Table

__all__ = ["Scope", "Space", "Table"]
