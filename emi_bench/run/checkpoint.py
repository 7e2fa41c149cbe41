"""What a run keeps after every phase, to go on from: one file, replaced each time, with its checksum.

The file: a line with the format and the sha256 of all that follows, a line of JSON that says whose it is, and what
torch makes of the rest. Only the rest needs torch.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

FORMAT = 2
_MAGIC = b"emi-bench checkpoint"


class UnusableCheckpoint(Exception):
    """A run cannot go on from this; the message says why."""


@dataclass
class State:
    """How far a run is, and what it has to show for it."""

    phase: int = 0  #: phases finished
    matrix: list[list[float]] = field(default_factory=list)
    others: dict[str, list[list[float]]] = field(default_factory=dict)
    losses: list[dict[str, float]] = field(default_factory=list)
    step_ms: list[float] = field(default_factory=list)
    wall_seconds: float = 0.0
    peak: int = 0
    started: str = ""
    watched: dict[str, Any] | None = None  #: as `RunSpec.anytime` has it
    curve: list[list[Any]] = field(default_factory=list)  #: rows of `result.CURVE`

    @property
    def accuracy(self) -> float | None:
        """Over the tasks seen so far, after the last finished one."""
        return float(np.mean(self.matrix[-1])) if self.matrix else None


@dataclass(frozen=True)
class Checkpoint:
    """A run between two phases."""

    run_id: str
    threads: int  #: of torch; with another number a run that goes on is not bit-identical
    method: dict[str, Any]  #: its `state_dict()`
    state: State
    features: bool = False  #: whether the run is to leave features

    @property
    def about(self) -> dict[str, Any]:
        asked = {"features": self.features, "anytime": self.state.watched is not None}
        return {"run_id": self.run_id, "phase": self.state.phase, **asked}

    def encode(self) -> bytes:
        import torch

        out = io.BytesIO()
        first = out.write(_first_line(b""))  # written again below: what follows is large and not to be copied
        out.write(json.dumps(self.about).encode() + b"\n")
        torch.save({"threads": self.threads, "method": self.method, "state": asdict(self.state)}, out)
        line = _first_line(out.getbuffer()[first:])
        out.seek(0)
        out.write(line)
        return out.getvalue()

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Raises UnusableCheckpoint for what no run can go on from. Dicts of format 1 had no such lines."""
        import torch

        about = about_checkpoint(content)
        start = content.index(b"\n", content.index(b"\n") + 1) + 1 if about else 0
        try:
            kept = torch.load(io.BytesIO(memoryview(content)[start:]), map_location="cpu", weights_only=True)
        except Exception as e:  # torch raises whatever the broken bytes lead it to
            raise UnusableCheckpoint(f"it is no checkpoint ({type(e).__name__})") from e
        if not about:
            if not isinstance(kept, dict) or "format" not in kept:
                raise UnusableCheckpoint("it names no format")
            if kept["format"] != 1:
                raise UnusableCheckpoint(f"its format is {kept['format']}, this program's {FORMAT}")
            about = kept
        try:
            state = State(**kept["state"])
            return cls(about["run_id"], kept["threads"], kept["method"], state, about.get("features", False))
        except (KeyError, TypeError) as e:
            raise UnusableCheckpoint(f"it lacks something or has something unknown ({e})") from e


def about_checkpoint(content: bytes) -> dict[str, Any]:
    """What a checkpoint says of itself (`Checkpoint.about`), verified, without torch. Empty for one of format 1."""
    if not content.startswith(_MAGIC):
        return {}
    first, about, _ = [*content[:1000].split(b"\n", 2), b"", b""][:3]
    number = first[len(_MAGIC) + 1 :].partition(b" ")[0]
    if number != str(FORMAT).encode():
        raise UnusableCheckpoint(f"its format is {number.decode(errors='replace')}, this program's {FORMAT}")
    if first + b"\n" != _first_line(memoryview(content)[len(first) + 1 :]):
        raise UnusableCheckpoint("its checksum does not fit its content")
    told: dict[str, Any] = json.loads(about)
    return told


def _first_line(rest: bytes | memoryview) -> bytes:
    return b"%s %d %s\n" % (_MAGIC, FORMAT, hashlib.sha256(rest).hexdigest().encode())
