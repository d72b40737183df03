# make venv    the virtual environment: .venv
# make demo    a recall/QPS frontier of pgvector HNSW, measured on this machine
# make test    unit tests, and tests on one embedded server: minutes
# make test-all    every test, also with many servers, kills, hostile inputs, containers, tiers and a browser
# make lint    ruff, mypy, import-linter (which floor imports which) and tests/house.py (names, messages, sizes)
# make lock    new versions of the dependencies into the lock files

PYTHON ?= python3
BIN := .venv/bin
DEMO_DATASET ?= clustered-50k-96-euclidean
# One index at six depths, for 60 s: experiments/demo.yml

.PHONY: venv demo test test-all lint format lock clean

venv: .venv/runtime

demo: .venv/runtime
	$(BIN)/python run.py --local --experiment demo --dataset $(DEMO_DATASET)
	$(BIN)/python plot.py --dataset $(DEMO_DATASET) -Y log
	@echo "The frontier: $(CURDIR)/results/$(DEMO_DATASET).png"

test: .venv/dev
	$(BIN)/python -m pytest -n 4 -m "not thorough"

test-all: .venv/dev
	$(BIN)/python -m pytest -m alone tests/test_tier*.py
	$(BIN)/python -m pytest -n 4 -m "not alone"

lint: .venv/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tests.house

format: .venv/dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

COMPILE := $(BIN)/uv pip compile --universal --python-version 3.10 --no-python-downloads --generate-hashes \
    --no-emit-index-url --no-header --no-annotate
IMAGES := algorithms/base/requirements algorithms/base/requirements-tools algorithms/postgres/docker/requirements

lock: .venv/dev
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock
	for image in $(IMAGES); do \
	    $(COMPILE) -c requirements.lock -c requirements-dev.lock $$image.in -o $$image.lock || exit; \
	done
	for wheel in algorithms/postgres/wheels/*.lock algorithms/*/release.lock; do \
	    sed 's/ .*//;q' $$wheel | $(COMPILE) --no-deps - -o $$wheel || exit; \
	done

clean:
	rm -rf .venv

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "error: $(PYTHON) is not Python 3.10 or newer: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv .venv || \
	    { rm -rf .venv; echo "error: no virtual environment could be made; on Debian: apt install python3-venv"; exit 1; }

.venv/runtime: .venv/bin/python requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements.lock
	@touch $@

.venv/dev: .venv/bin/python requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements-dev.lock
	@touch $@ .venv/runtime
