# The same few commands for people and CI. Each builds .venv by itself the first time.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test coverage check bench clean python

help: ## Say what there is
	@awk -F ': .*## ' '/^[a-z]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

demo: $(INSTALLED) ## See it work: a workstation and a training job that is preempted twice, on this machine
	@$(BIN)/roost demo

test: $(INSTALLED) ## Run all tests (arguments for pytest: make test T="tests/cost -x")
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(T)

coverage: $(INSTALLED) ## Run all tests and say which lines they reach; takes twice as long
	@$(BIN)/python -m pytest --cov --cov-report=term $(T)

check: $(INSTALLED) ## Lint, format, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(INSTALLED) ## Measure, and print a table of it
	@$(BIN)/python -m bench

clean: ## Remove what these commands made: .venv, caches, coverage
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.* *.egg-info build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt | python
	@echo "Installing into $(VENV), once: $(SIZE)."
	@$(PYTHON) -m venv $(VENV) || { echo "No venv: on Debian and Ubuntu it is the package python3-venv."; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,postgres,dev]'
	@touch $@

WORKERS ?= 3
# Tests run side by side; most of them wait for processes.

SIZE = 1.6 GB on disk with a CPU build of torch, several GB and some minutes more with PyPI's CUDA build

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "Roost needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1). Name another: make demo PYTHON=python3.12"; exit 1; }
