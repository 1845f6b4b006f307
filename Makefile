# Each target sets up .venv by itself; nothing has to be installed or activated first.
.DEFAULT_GOAL := help
.PHONY: help demo test test-all check bench house ratchet lint types layers schemas picture clean writable
# Two pips at once would spoil the one .venv.
.NOTPARALLEL:

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# EXTRAS=dev,ray also installs Ray, without which the tests on a cluster are skipped.
EXTRAS ?= dev
DEV_STAMP := .venv/.installed-$(EXTRAS)

help:
	@echo "make demo      set everything up and run the main job"
	@echo "make test      set everything up and run the quick tests, at most 5 minutes"
	@echo "make test-all  run every test that CI runs"
	@echo "make check     before a change is offered: lint, types, layers, test"
	@echo "make lint      compare the style and the format with ruff's rules"
	@echo "make types     check the types with mypy, in strict mode"
	@echo "make layers    check which package imports which"
	@echo "make bench     run the benchmarks"
	@echo "make schemas   write the JSON Schemas of stored types to docs/schema/"
	@echo "make picture   draw the README's picture of the demo"
	@echo "make house     print the size of the code: files, lines, imports"
	@echo "make ratchet   compare what each hot path costs with what is stored"
	@echo "make clean     remove .venv and what tools have cached"
	@echo
	@echo "PYTHON=python3.12 chooses the Python of .venv, EXTRAS=dev,ray adds Ray and with it the tests on a cluster"

writable:
	@test -w . || { echo "make: $$(id -un) may not write to $$PWD, where .venv and jobs/ are made;" \
	  "make a copy of your own: cp -R '$$PWD' ~/seatrial && cd ~/seatrial && make clean demo" >&2; exit 1; }

# $(call install,WHAT): into .venv, which is made first if need be; with uv where there is one, else with venv and pip.
define install
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("make: $(PYTHON) is Python %d.%d; 3.11 or \
	later is needed: make PYTHON=python3.11" % sys.version_info[:2])'
	@set -e; if command -v uv >/dev/null 2>&1; then \
	  test -x $(BIN)/python || uv venv --quiet --python $(PYTHON) .venv; \
	  uv pip install --quiet --python $(BIN)/python --editable '$(1)' --constraint constraints.txt; \
	else \
	  test -x $(BIN)/pip || $(PYTHON) -m venv .venv; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '$(1)' --constraint constraints.txt; \
	fi
endef

# The stamps make a second run free and a changed dependency list install again.
$(STAMP): pyproject.toml constraints.txt | writable
	$(call install,.)
	@touch $(STAMP)

$(DEV_STAMP): pyproject.toml constraints.txt | writable
	$(call install,.[$(EXTRAS)])
	@touch $(STAMP) $(DEV_STAMP)

demo: writable $(STAMP)
	@$(BIN)/python -m examples.demo

picture: $(STAMP)
	@$(BIN)/python -m examples.picture

test: $(DEV_STAMP)
	$(BIN)/pytest

test-all: $(DEV_STAMP)
	$(BIN)/pytest --whole -m "not alone"
	$(BIN)/pytest --whole -m alone -n0

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV_STAMP)
	$(BIN)/mypy

layers: $(DEV_STAMP)
	$(BIN)/lint-imports

check: lint types layers test

bench: $(DEV_STAMP)
	$(BIN)/python -m benchmarks.load_tasks
	$(BIN)/python -m benchmarks.ingest
	$(BIN)/python -m benchmarks.judge
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.jobs
	$(BIN)/python -m benchmarks.report
	$(BIN)/python -m benchmarks.view
	$(BIN)/python -m benchmarks.trials
	$(BIN)/python -m benchmarks.check
	$(BIN)/python -m benchmarks.gateway
	$(BIN)/python -m benchmarks.harborenv
	$(BIN)/python -m benchmarks.sandbox
	$(BIN)/python -m benchmarks.backends
	$(BIN)/python -m benchmarks.engines
	$(BIN)/python -m benchmarks.cluster_simulation
	$(BIN)/python -m benchmarks.coverage
	$(BIN)/python -m benchmarks.coverage_judges

house: $(DEV_STAMP)
	@UPDATE=$(UPDATE) CHAINS=$(CHAINS) $(BIN)/python -m benchmarks.house

ratchet: $(DEV_STAMP)
	@UPDATE=$(UPDATE) $(BIN)/python -m benchmarks.ratchet

schemas: $(STAMP)
	$(BIN)/python -m seatrial schema --write docs/schema

clean:
	rm -rf .venv dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
