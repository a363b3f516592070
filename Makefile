# `make demo` and `make test` need python3 >= 3.11 and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check tests fuzz bench bench-accuracy docs clean

$(VENV)/.run: pyproject.toml
	@echo 'Setting up $(VENV): a minute or two, once.'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[all]'
	touch $@

$(VENV)/.test: $(VENV)/.run
	$(BIN)/python -m pip install --quiet -e '.[test,dev]'
	touch $@

$(VENV)/.docs: $(VENV)/.run
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	touch $@

demo: $(VENV)/.run
	$(BIN)/python examples/demo.py

test: check tests

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests docs benchmarks examples *.md

tests: $(VENV)/.test
	$(BIN)/python -m pytest -n auto

# Odd inputs and damaged files: `make fuzz N=10000 SEED=1`. About a tenth of a second each.
N ?= 1000
SEED ?= 0
fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz $(N) --seed $(SEED)

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

bench: $(VENV)/.run
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/tuning.py

# The quick version takes minutes; `ACCURACY='--n-jobs 2'` runs everything, about three hours.
ACCURACY ?= --quick
bench-accuracy: $(VENV)/.run
	$(BIN)/python benchmarks/accuracy.py simulated $(ACCURACY)

clean:
	rm -rf $(VENV) build dist demo_output docs/_build docs/gallery docs/generated docs/sg_execution_times.rst
