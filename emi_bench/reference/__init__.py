"""The published numbers, with source and protocol, as data files; read here and nowhere else."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    import pandas as pd

PAPER = "emi_paper"  #: the source whose tables are rebuilt


def text(name: str) -> str:
    """A data file of this folder."""
    return (files(__package__) / name).read_text(encoding="utf-8")


def _yaml(name: str) -> Any:
    return yaml.safe_load(text(name))


@cache
def settings() -> dict[str, Any]:
    """The paper's data sets, memories and protocol."""
    loaded: dict[str, Any] = _yaml("settings.yaml")
    return loaded


@cache
def sources() -> dict[str, dict[str, str]]:
    """Source key -> title, authors, short, protocol."""
    loaded: dict[str, dict[str, str]] = _yaml("sources.yaml")
    return loaded


@cache
def claims() -> list[dict[str, Any]]:
    """The paper's checkable sentences."""
    loaded: list[dict[str, Any]] = _yaml("claims.yaml")
    return loaded


@cache
def _csv(name: str) -> pd.DataFrame:
    import pandas as pd  # here: commands that print no number do not pay for it

    with (files(__package__) / name).open("r", encoding="utf-8") as f:
        return pd.read_csv(f, keep_default_na=True)


def values(metric: str | None = None, source: str | None = None) -> pd.DataFrame:
    """Published cells: source, place, metric, method, dataset, n_tasks, memory, mean, std (percent), n, note."""
    frame = _csv("values.csv")
    if metric is not None:
        frame = frame[frame["metric"] == metric]
    if source is not None:
        frame = frame[frame["source"] == source]
    return frame.copy()


def studies(place: str) -> pd.DataFrame:
    """The rows of Table III-VI (`place` is table3 ... table6), percent, ms or GB."""
    frame = _csv("studies.csv")
    return frame[frame["place"] == place].dropna(axis="columns", how="all").reset_index(drop=True)
