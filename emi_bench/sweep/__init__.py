"""The grid: sweep file -> plan -> Ray Tune -> store. `emi_bench.store` is the truth, this package only fills it."""
