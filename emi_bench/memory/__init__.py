"""The replay memory: images on the device, and who may enter."""

from emi_bench.memory.greedy_balanced import greedy_balanced
from emi_bench.memory.memory import Memory
from emi_bench.memory.reservoir import batched_reservoir, textbook_reservoir

__all__ = ["Memory", "batched_reservoir", "greedy_balanced", "textbook_reservoir"]
