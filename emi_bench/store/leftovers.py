"""What killed processes leave behind, found and cleared. Nothing of a living run, whoever's it is, on whatever machine.

Nobody's are: temporary files whose process is gone; claims that are dead; checkpoints and failures of runs that are
done. The checkpoint of a run that is not done is no leftover: it is where the run goes on.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from dataclasses import dataclass

from emi_bench.run.checkpoint import UnusableCheckpoint, about_checkpoint
from emi_bench.store import failures, leases
from emi_bench.store.processes import mentioned, places, surely_dead
from emi_bench.store.store import CHECKPOINTS, Store, anytime_path, feature_path

GRACE = 3600.0  # seconds after which a temporary file of another machine is nobody's: no write takes so long
SCRATCH = "emi-"  #: folders of Ray's and Tune's in places for temporary files, with the tag of their driver
_RUN = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Leftover:
    """A file of the store, or a folder of this machine, that nobody needs."""

    path: str
    why: str


def leftovers(store: Store) -> list[Leftover]:
    """All of them; nothing is changed."""
    files = store.files.list()
    claimed = store.claims.live()  # before the results: who finishes in between is no leftover yet
    done, beside = store.results(), store.beside()
    found = [Leftover(p, "its process is gone") for p in files if p.endswith(".tmp") and _abandoned(store, p, claimed)]
    for path in files:
        folder, _, name = path.rpartition("/")
        run_id = name.partition(".")[0]
        if not _RUN.fullmatch(run_id) or run_id in claimed:
            continue
        if folder == leases.FOLDER:
            found.append(Leftover(path, "its holder is gone"))
        kept_for_a_run = folder in (CHECKPOINTS, failures.FOLDER)
        if kept_for_a_run and run_id in done and beside.issuperset(_awaited(store, path, run_id)):
            found.append(Leftover(path, "its run is done"))
    return found


def clear(store: Store, found: list[Leftover]) -> None:
    """Delete them. A dead claim is taken over before it goes: somebody else may be about to."""
    for leftover in found:
        folder, _, name = leftover.path.rpartition("/")
        if folder != leases.FOLDER or name.endswith(".tmp"):
            store.files.delete(leftover.path)
        elif store.files.exists(leftover.path):
            claim = store.claims.acquire(name.partition(".")[0], owner="")
            if claim is not None:
                store.claims.release(claim)


def scratch() -> list[Leftover]:
    """Folders on this machine whose driver is gone, and its workers with it: they may outlive it a while."""
    dead = [str(p) for place in places() for p in place.glob(f"{SCRATCH}*") if surely_dead(p.name)]
    used = mentioned(dead)
    return [Leftover(path, "its sweep is gone") for path in dead if path not in used]


def clear_scratch(found: list[Leftover]) -> None:
    for leftover in found:
        shutil.rmtree(leftover.path, ignore_errors=True)


def tidy(store: Store) -> None:
    """For a sweep, before its first run and after its last. A store that does not answer is left as it is."""
    with contextlib.suppress(OSError):
        clear(store, leftovers(store))
        clear_scratch(scratch())


def _abandoned(store: Store, path: str, claimed: dict[str, leases.Claim]) -> bool:
    name = path.rpartition("/")[2]
    if surely_dead(name):
        return True
    run = _RUN.search(name)
    return (run is None or run[0] not in claimed) and 0 < store.files.modified(path) < time.time() - GRACE


def _awaited(store: Store, path: str, run_id: str) -> list[str]:
    """What the run of a checkpoint or of a failure is to leave beside its result."""
    content = store.files.read(path) or b""
    with contextlib.suppress(UnusableCheckpoint, ValueError, AttributeError):
        about = json.loads(content)["spec"] if path.endswith(".json") else about_checkpoint(content)
        asked = {feature_path: about.get("features"), anytime_path: about.get("anytime")}
        return [where(run_id) for where, wanted in asked.items() if wanted]
    return []
