"""Generated models for the bench: nothing to download, the same for the same seed everywhere.

`SETS` names the sets; each member makes its model and evidence when asked. Knows nothing of inference.
"""

from ibia.bench.generate.parameters import PARAMETERS, format_parameters, read_parameters
from ibia.bench.generate.sets import FAMILIES, SETS, Generated, find_generated

__all__ = ["FAMILIES", "PARAMETERS", "SETS", "Generated", "find_generated", "format_parameters", "read_parameters"]
