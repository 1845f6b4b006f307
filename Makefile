# Each target sets up .venv by itself; nothing has to be installed or activated first.
.DEFAULT_GOAL := help
.PHONY: help demo test check bench lint types layers schemas picture clean

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

help:
	@echo "make demo    set everything up and run the main job"
	@echo "make test    set everything up and run the tests"
	@echo "make check   everything CI checks: lint, types, layers, tests"
	@echo "make bench   run the benchmarks"

# The stamp makes a second run free and a changed dependency list install again.
$(STAMP): pyproject.toml constraints.txt
	@if command -v uv >/dev/null 2>&1; then \
	  test -x $(BIN)/python || uv venv --quiet --python $(PYTHON) .venv; \
	  uv pip install --quiet --python $(BIN)/python --editable '.[dev]' --constraint constraints.txt; \
	else \
	  test -x $(BIN)/pip || $(PYTHON) -m venv .venv; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' --constraint constraints.txt; \
	fi
	@touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/python -m examples.demo

picture: $(STAMP)
	@$(BIN)/python -m examples.picture

test: $(STAMP)
	$(BIN)/pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

check: lint types layers test

bench: $(STAMP)
	$(BIN)/python -m benchmarks.load_tasks
	$(BIN)/python -m benchmarks.ingest
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.jobs
	$(BIN)/python -m benchmarks.trials
	$(BIN)/python -m benchmarks.gateway
	$(BIN)/python -m benchmarks.harborenv
	$(BIN)/python -m benchmarks.sandbox
	$(BIN)/python -m benchmarks.backends

schemas: $(STAMP)
	$(BIN)/python -m seatrial schema --write docs/schema

clean:
	rm -rf .venv dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
