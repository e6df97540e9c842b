# The verbs of this project. `make demo` and `make test` need Python 3.11 or newer, and make.
PYTHON ?= python3
BIN := .venv/bin
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

.PHONY: demo check fast test bench format clean

demo: .venv/base
	$(BIN)/fedcox demo --out demo --overwrite

check: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: .venv/dev
	$(BIN)/pytest -n auto --dist loadgroup

# The mathematics, any split, one fit, one under noise, one under masks: a minute.
fast: .venv/dev
	$(BIN)/pytest -q -n auto tests/survival tests/properties/test_any_split.py tests/study/test_piecewise_fit.py \
		tests/study/test_noised_fit.py tests/engines/test_masked.py

bench: .venv/dev
	$(BIN)/python -m benchmarks.run

format: .venv/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv demo

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedcox needs Python 3.11 or newer.")'
	$(PYTHON) -m venv .venv

# Stamps: an environment is made again only when what it is made from changes.
.venv/base: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

.venv/dev: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev,experiments,private,federated,slides,onnx,audit]"
	touch $@ .venv/base
