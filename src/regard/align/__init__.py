"""Which words stand for which, found by counting alone: what attention can be compared with."""

from regard.align.ibm1 import IBM1, both_ways, owed, same_places

__all__ = ["IBM1", "both_ways", "owed", "same_places"]
