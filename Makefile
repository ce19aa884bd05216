# `make demo` and `make test` work from a fresh clone: each installs what it needs into .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint types tests benchmark clean

demo: $(VENV)/installed  ## audit the packaged Adult data for gender and name the report
	$(BIN)/fairprobe audit adult --sensitive gender --out runs/adult-gender --overwrite

test: lint types tests  ## everything that must be green

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

tests: $(VENV)/installed-dev
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

benchmark: $(VENV)/installed
	$(BIN)/python -m benchmarks.generation

clean:
	rm -rf $(VENV) runs .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e .
	touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e ".[dev]"
	touch $@ $(VENV)/installed
