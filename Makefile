# `make demo` and `make test` need python3 >= 3.11 and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check tests test-floors wheel-test fuzz bench bench-accuracy docs clean

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

# The lowest versions that pyproject.toml allows, in an environment of their own: all quick tests but
# scikit-learn's own checks, the paper's studies and the docs; a quarter of an hour on two busy cores.
# Old packages warn of what newer ones deprecate: such warnings are not ours.
FLOORS := .venv-floors
FLOOR_TESTS ?= tests --ignore=tests/estimators/test_estimator_checks.py \
	--ignore=tests/reproduction --ignore=tests/test_docs.py
$(FLOORS)/.done: pyproject.toml tests/floors.py
	$(PYTHON) -m venv $(FLOORS)
	$(FLOORS)/bin/python -m pip install --quiet --upgrade pip
	$(FLOORS)/bin/python tests/floors.py > $(FLOORS)/floors.txt
	$(FLOORS)/bin/python -m pip install --quiet -c $(FLOORS)/floors.txt -e '.[test]'
	touch $@

test-floors: $(FLOORS)/.done
	$(FLOORS)/bin/python -m pytest -n auto -m 'not slow and not gpu and not browser' \
		-W ignore::DeprecationWarning -W ignore::pytest.PytestRemovedIn10Warning $(FLOOR_TESTS)

# Build the wheel, and use it in empty environments, bare and with each extra alone: about half a minute each.
wheel-test: $(VENV)/.test
	$(BIN)/python tests/wheel.py $(EXTRAS)

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
	rm -rf $(VENV) $(FLOORS) build dist demo_output docs/_build docs/gallery docs/generated docs/sg_execution_times.rst
