"""The command `run`. What it needs of torch is imported when it runs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from emi_bench.cli.options import DataRoot, Plugin, Results, complete_datasets, complete_methods, load_plugins
from emi_bench.errors import UserError
from emi_bench.terminal import say

Download = Annotated[bool, typer.Option("--download", help="Fetch the data set if it is missing.")]


def run(
    method: Annotated[str, typer.Option(help="See `emi-bench methods`.", autocompletion=complete_methods)],
    dataset: Annotated[
        str,
        typer.Option(help="See `emi-bench datasets`; or npz:PATH, folder:PATH.", autocompletion=complete_datasets),
    ],
    memory: Annotated[int, typer.Option(help="Images the memory may hold.")] = 0,
    seed: Annotated[int, typer.Option(help="Class order, stream, weights and choices derive from it.")] = 0,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A constant of the method or `protocol.KEY`.")
    ] = None,
    results: Results = "results",
    data_root: DataRoot = None,
    download: Download = False,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda or cuda:N. Default: the GPU, where there is one.")
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, help="CPU threads; results are bit-identical for the same number.")
    ] = 1,
    features: Annotated[bool, typer.Option("--features", help="Also export features after the last task.")] = False,
    plugin: Plugin = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the path of the result and nothing else.")
    ] = False,
) -> None:
    """Run one method on one data set and store its accuracy matrix.

    Interrupted? The same command goes on from the last finished task. Finished? It says so and does nothing.

    [bold]Example[/bold]  emi-bench run --method er --dataset cifar10 --memory 1000 --seed 0
    """
    from emi_bench.cli.single import Bar, blamed, held, parse_settings, tell
    from emi_bench.data import load
    from emi_bench.run.execute import choose_device, execute
    from emi_bench.run.host_memory import keep_freed_memory
    from emi_bench.run.measure import NonFiniteLoss
    from emi_bench.run.resolve import resolve
    from emi_bench.store import Store
    from emi_bench.store.checkpoints import finished_phases
    from emi_bench.store.leases import ClaimLost

    load_plugins(plugin)
    console = Console()
    config, protocol = parse_settings(method, set_ or [])
    spec = resolve(
        method, dataset, memory=memory, seed=seed, config=config, protocol=protocol, features=features, root=data_root
    )
    where = choose_device(device)
    store = Store(results)
    keep_freed_memory()
    if not quiet:
        console.print(f"{spec.label} on {where}, run {spec.run_id[:12]}", highlight=False)
    bar = Bar(console, quiet)
    try:
        with bar.shown(), held(store, spec) as step:
            done = execute(
                spec,
                store,
                lambda: load(dataset, data_root, download=download, reduction=spec.protocol.reduction),
                device=where,
                threads=threads,
                on_progress=bar.update,
                on_start=bar.start,
                on_step=step,
            )
    except NonFiniteLoss as e:
        hint = "No result was written. A lower learning rate often helps: --set lr=0.01, for example."
        raise UserError(f"{spec.label} failed: {e}", hint=hint) from e
    except ClaimLost as e:
        hint = "It was silent too long; finished tasks are kept, and the other goes on from there."
        raise UserError(str(e), hint=hint) from e
    except UserError:
        raise
    except Exception as e:
        raise blamed(spec, e) from e
    except KeyboardInterrupt:
        last = finished_phases(store, spec.run_id)  # the bar may not have heard of it yet
        kept = f"tasks 1-{last} are kept" if last else "no task was finished, so nothing is kept"
        again = spec.command(results=results, data_root=data_root, device=device, threads=threads)
        say(console, f"\ninterrupted: {kept}. The same command goes on from there:\n  {again}")
        raise typer.Exit(130) from None
    tell(console, spec, done, quiet)
