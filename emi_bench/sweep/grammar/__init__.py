"""The grammar of sweep files. A leaf: it knows neither methods nor data, and needs neither torch nor Ray."""

from emi_bench.sweep.grammar.model import MOST_SEEDS, Resources, RunGroup, Sweep, parse_time
from emi_bench.sweep.grammar.reading import placed, read_grammar
from emi_bench.sweep.grammar.shipped import shipped, sweep_path, sweep_word
from emi_bench.sweep.grammar.source import YamlSource

__all__ = [
    "MOST_SEEDS",
    "Resources",
    "RunGroup",
    "Sweep",
    "YamlSource",
    "parse_time",
    "placed",
    "read_grammar",
    "shipped",
    "sweep_path",
    "sweep_word",
]
