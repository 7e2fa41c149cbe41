"""Where data lies, and what to say when it does not."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from emi_bench.errors import UserError

ENVIRONMENT = "EMI_BENCH_DATA"


def data_root(option: Path | None = None) -> Path:
    """The folder of all data: the option, else $EMI_BENCH_DATA, else ~/.cache/emi-bench. It need not exist yet."""
    chosen = option or os.environ.get(ENVIRONMENT) or Path("~/.cache/emi-bench")
    return Path(chosen).expanduser().absolute()


def first_there(places: Sequence[Path]) -> Path | None:
    """The first of the places that exists."""
    return next((place for place in places if place.exists()), None)


def missing(name: str, title: str, root: Path, places: Sequence[Path]) -> UserError:
    """The error for absent data: what, every place looked at, the ways to get it."""
    looked = "".join(f"\n  {place}" for place in places)
    files = " or ".join(place.name for place in places)
    place = "" if root == data_root() else f" --data-root {shlex.quote(str(root))}"
    return UserError(
        f"{title} is not on this machine; looked for{looked}",
        hint=f"Either download it:   emi-bench data download {name}{place}\n"
        f"or put                {files}\n"
        f"under                 {root}   (another folder: --data-root DIR or {ENVIRONMENT}=DIR)",
    )


def again(name: str, place: Path) -> str:
    """What to do about a damaged file of a known data set."""
    return f"Delete {place} and get it again: emi-bench data download {name}, or copy it from another machine."
