"""For whoever writes a method: scripted random choices, and the battery of checks that every method passes."""

from emi_bench.testing.battery import Outcome, examine, examine_file
from emi_bench.testing.checks import CHECKS, Check
from emi_bench.testing.data import blobs, register_check_data
from emi_bench.testing.failure import Failure, NotRun
from emi_bench.testing.scripted import ScriptedDraws
from emi_bench.testing.subject import Subject

__all__ = [
    "CHECKS",
    "Check",
    "Failure",
    "NotRun",
    "Outcome",
    "ScriptedDraws",
    "Subject",
    "blobs",
    "examine",
    "examine_file",
    "register_check_data",
]
