# `make demo`, `make test` and `make docs` work from a fresh clone: each installs what it needs into .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint types tests slow docs benchmark campaign campaign-full campaign-short sbom clean

demo: $(VENV)/installed  ## audit the packaged Adult data for gender and name the report
	$(BIN)/fairprobe audit adult --sensitive gender --out runs/adult-gender --overwrite

test: $(VENV)/installed-dev  ## everything that must be green; types are checked beside the tests
	$(MAKE) --jobs 2 lint types tests

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

tests: $(VENV)/installed-dev
	$(BIN)/pytest -m "not slow" -n auto --dist loadfile --no-loadscope-reorder

slow: $(VENV)/installed-dev  ## the tests that take long and are run by CI only
	$(BIN)/pytest -m slow

docs: $(VENV)/installed-dev  ## the documentation as a site: open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

benchmark: $(VENV)/installed
	$(BIN)/python -m benchmarks.generation

campaign: $(VENV)/installed-dev  ## kills, full disks, damaged and hostile files, mutants: 20 minutes
	$(BIN)/python -m campaign

campaign-full: $(VENV)/installed-dev  ## the same overnight: 200 kills, 40,000 inputs, 400 mutants
	$(BIN)/python -m campaign --scale full --out campaign-full.md

campaign-short: $(VENV)/installed-dev  ## the same in two minutes, for CI
	$(BIN)/python -m campaign --scale short

sbom: $(VENV)/installed  ## the wheel, with a software bill of materials in it
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .
	$(BIN)/python tools/sbom.py dist/*.whl

clean:
	rm -rf $(VENV) runs site .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e .
	touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e ".[dev]"
	touch $@ $(VENV)/installed
