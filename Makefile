# Every target makes its own environment: .venv, filled by uv. Nothing happens there when nothing changed.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export OMP_NUM_THREADS ?= 1
# Bytecode is kept whatever the shell says: workers, drivers and tests are many processes that import the same files.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo docs test coverage test-all lint format bench proxy-check clean

help:
	@echo "make demo      the whole path on the embedded digits data, in minutes"
	@echo "make test      the test suite     make coverage   the same, counting lines: 90 % must be reached"
	@echo "make test-all  with the slow tests, counting lines"
	@echo "make lint      ruff and mypy      make format   ruff, in place"
	@echo "make docs      the documentation site, in build/site"
	@echo "make bench     speed, as ratios to the bare network passes"
	@echo "make proxy-check   three runs of the committed proxy again: the same bits, or elsewhere the same spread (CIFAR-10 is needed)"

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed (set PYTHON=...)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version)"; exit 1; }
	@echo "==> making $(VENV) (the first time: a minute or two, 5 GB of which torch is the most)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --python $(BIN)/python --compile-bytecode -c constraints.txt -e '.[dev]'
	@touch $(READY)

# Beside the committed results, which readers of results/ see and this folder they skip: the demo really runs.
DEMO := results/_demo
demo: $(READY)
	@echo "==> 15 methods x 2 seeds on digits: a few minutes on two cores"
	$(BIN)/emi-bench sweep sweeps/demo.yaml --results $(DEMO)
	$(BIN)/emi-bench report sweeps/demo.yaml --results $(DEMO) --out reports/_demo
	@echo; $(BIN)/emi-bench table1 --results $(DEMO)
	@echo; echo "results: $(DEMO)   report: reports/_demo/index.html   tables: reports/_demo/tables   figures: reports/_demo/figures"

PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
COUNTED := --cov=emi_bench --cov-report=term
test: $(READY)
	$(PYTEST)

coverage: $(READY)
	$(PYTEST) $(COUNTED)

test-all: $(READY)
	$(PYTEST) -m "slow or not slow" $(COUNTED)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open build/site/index.html; with search: $(BIN)/python -m http.server --directory build/site, then http://localhost:8000"

bench: $(READY)
	$(BIN)/python -m benchmarks

proxy-check: $(READY)
	$(BIN)/python -m benchmarks.proxy_check

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .coverage* build *.egg-info
