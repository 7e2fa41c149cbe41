# %% [markdown]
# # A tour of the results
# Run it cell by cell in an editor that knows `# %%`, or whole: `python examples/results_tour.py [results]`.

# %%
import sys

import numpy as np

import emi_bench

where = sys.argv[1] if len(sys.argv) > 1 else "results"
runs = emi_bench.load_runs(where)
print(
    f"{len(runs)} runs: {', '.join(sorted(runs['method'].unique()))} on {', '.join(sorted(runs['dataset'].unique()))}"
)

# %% [markdown]
# ## The table: mean ± sample standard deviation, percent

# %%
# A cell is one configuration with all its seeds: runs of other constants are not averaged with these.
cells = runs.groupby(["method", "dataset", "memory", "cell_id"])
table = cells["average_accuracy"].agg(["mean", "std", "count"])
shown = (table[["mean", "std"]] * 100).round(1).assign(n=table["count"], changed=cells["changed"].first())
print(shown.droplevel("cell_id").to_string())

# %% [markdown]
# ## What a run remembers
# Row i of the matrix is the accuracy on every task seen so far, after task i+1.

# %%
best = runs.loc[runs["average_accuracy"].idxmax()]
print(best["method"], "seed", best["seed"])
print(np.round(best["matrix"] * 100, 1))

# %% [markdown]
# ## Accuracy and forgetting of every method, over all its runs

# %%
columns = ["average_accuracy", "average_incremental_accuracy", "forgetting", "forgetting_raptor", "learning_accuracy"]
print((runs.groupby(["method", "cell_id"])[columns].mean() * 100).round(1).droplevel("cell_id").to_string())

# %% [markdown]
# ## Where a number comes from

# %%
print(best["command"])
print({k: best[k] for k in ("git_sha", "device", "threads", "started", "finished")})
