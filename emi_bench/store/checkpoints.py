"""The checkpoints of a store, one a run, until its result is there."""

from __future__ import annotations

from emi_bench.run.checkpoint import Checkpoint, UnusableCheckpoint
from emi_bench.store.store import Store, checkpoint_path


def save_checkpoint(store: Store, checkpoint: Checkpoint) -> None:
    """Replace the run's checkpoint."""
    store.put(checkpoint_path(checkpoint.run_id), checkpoint.encode())


def load_checkpoint(store: Store, run_id: str) -> Checkpoint | None:
    """For a run that begins: its last checkpoint, if there is one to go on from. One that is not is set aside: the run
    is about to be done anew."""
    content = store.files.read(checkpoint_path(run_id))
    if content is None:
        return None
    try:
        found = Checkpoint.decode(content)
        if found.run_id != run_id:
            raise UnusableCheckpoint(f"it is of run {found.run_id[:12]}, not of {run_id[:12]}")
    except UnusableCheckpoint as e:
        reject_checkpoint(store, run_id, str(e))
        return None
    return found


def reject_checkpoint(store: Store, run_id: str, why: str) -> None:
    """Set a checkpoint aside that its run cannot go on from."""
    store.set_aside(checkpoint_path(run_id), f"{why}; the run starts anew")


def finished_phases(store: Store, run_id: str) -> int:
    """Of a run that was interrupted; a checkpoint that cannot be used counts as none."""
    content = store.files.read(checkpoint_path(run_id))
    try:
        return Checkpoint.decode(content).state.phase if content is not None else 0
    except UnusableCheckpoint:
        return 0


def drop_checkpoint(store: Store, run_id: str) -> None:
    """The run is done."""
    store.files.delete(checkpoint_path(run_id))
