"""`python -m benchmarks`: the quick ones, one after the other."""

from __future__ import annotations

from benchmarks import steps

if __name__ == "__main__":
    steps.main()
