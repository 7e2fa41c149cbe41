"""For whoever writes a method: scripted random choices, and the battery of checks that every method passes."""

from emi_bench.testing.battery import CheckResult, examine, examine_file
from emi_bench.testing.checks import CHECKS, Check
from emi_bench.testing.data import blobs, register_check_data
from emi_bench.testing.failure import CheckFailed, NotRun
from emi_bench.testing.scripted import ScriptedDraws
from emi_bench.testing.subject import Subject

__all__ = [
    "CHECKS",
    "Check",
    "CheckFailed",
    "CheckResult",
    "NotRun",
    "ScriptedDraws",
    "Subject",
    "blobs",
    "examine",
    "examine_file",
    "register_check_data",
]
