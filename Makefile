# On a fresh machine, `make repro` runs the toy world end to end, and `make test` runs the tests. Both first make .venv
# with the tested package versions. To use another interpreter: make repro PYTHON=python3.12
PYTHON ?= python3
BIN := $(CURDIR)/.venv/bin
export PATH := $(BIN):$(PATH)
# Else each of a thousand short processes compiles every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

# Two workers, one file at a time: half of the tests' time is spent waiting for processes that they start.
PYTEST := python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

.PHONY: repro test long lint gpu setup clean

repro: setup
	wsoup repro
	@wsoup report
	@wsoup results

test: setup
	$(PYTEST)

# Whole runs and experiments, which would make `make test` take more than six minutes.
long: setup
	$(PYTEST) -m long

lint: setup
	ruff check .
	ruff format --check .
	mypy

# Tests and measures a GPU in at most eight minutes and writes reports/gpu.md. Without a GPU it runs at toy size.
gpu: setup
	python -m benchmarks.gpu

setup: .venv/ready

.venv/ready: pyproject.toml setup.py constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 14) else f"wsoup needs Python 3.11 to 3.14, this is {v[0]}.{v[1]}: make PYTHON=python3.12")'
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	-@wsoup packages
	touch .venv/ready

# Remove what a run leaves behind, but keep the virtual environment.
clean:
	rm -rf artifacts .cache/wsoup data/toy/world data/toy/encoder
