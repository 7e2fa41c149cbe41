"""`python -m tests.sweep.driver sweep FILE ...`: the commands in a process of their own, to be killed."""

from __future__ import annotations

import sys

import typer

from emi_bench.cli.sweep import register
from emi_bench.errors import UserError

app = typer.Typer(pretty_exceptions_enable=False)
register(app)


def main(words: list[str]) -> None:
    try:
        app(words)
    except UserError as e:
        print(f"emi-bench: {e}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
