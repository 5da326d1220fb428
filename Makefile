# Everything runs in a virtual environment of its own, which `setup` makes once and
# again whenever the requirements change.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The tests run in parallel processes: more threads in each would slow all of them.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

# All but the search that the settings of the first were chosen by, which takes hours.
BENCHMARKS := $(filter-out benchmarks/settings.py,$(wildcard benchmarks/*.py))

.PHONY: help setup demo test test-fast lint format doctest docs bench clean

help:
	@echo "make setup      install skattn and its tools into $(VENV)"
	@echo "make demo       cross-validate the estimators on the bundled data"
	@echo "make test       run all tests and the examples in docstrings"
	@echo "make test-fast  the same without the slow tests"
	@echo "make lint       check style and format"
	@echo "make format     mend what the linter can mend"
	@echo "make doctest    run the examples in docstrings and in the documentation"
	@echo "make docs       build the documentation, warnings as errors"
	@echo "make bench      run the benchmarks"
	@echo "make clean      remove what the other targets made"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[demo,docs,test]"
	touch $@

demo: $(STAMP)
	$(BIN)/python -m skattn demo

test: $(STAMP)
	$(PYTEST)

test-fast: $(STAMP)
	$(PYTEST) -m "not slow"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

doctest: $(STAMP)
	$(PYTEST) skattn
	$(BIN)/sphinx-build -q -W --keep-going -E -b doctest docs docs/_build/doctest

docs: $(STAMP)
	rm -rf docs/generated docs/_build/html
	$(BIN)/sphinx-build -q -W --keep-going -E -b html docs docs/_build/html

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[bench]"
	$(BIN)/python -m pip download --quiet --no-deps \
		-d benchmarks/accuracy_support/wheels aeon==1.6.0 tslearn==0.10.0
	set -e; for script in $(BENCHMARKS); do $(BIN)/python $$script; done

clean:
	rm -rf $(VENV) build dist docs/_build docs/generated
