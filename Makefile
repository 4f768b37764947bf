PYTHON ?= $(shell command -v python3.11 || command -v python3)
# Where pip looks for torch; empty means pip's own settings.
TORCH_INDEX ?=
BIN := .venv/bin

.PHONY: install demo test test-pandas2 check bench docs clean

install: .venv/.installed

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet torch==2.13.0 $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $@

demo: install
	$(BIN)/checkwise demo

test: install
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The oldest supported pandas, without torch: records, selection, readers and the command line.
test-pandas2: .venv-pandas2/.installed
	.venv-pandas2/bin/python -m pytest -n 2 -q tests/records tests/selection tests/integrations tests/cli/test_select.py

.venv-pandas2/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-pandas2
	.venv-pandas2/bin/pip install --quiet -e . 'pandas==2.2.*' pytest pytest-xdist hypothesis
	touch $@

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install
	$(BIN)/python -m benchmarks

# Rebuild the tables that pages show, then run the code on every page.
docs: install
	$(BIN)/python docs/build/guarantees.py
	$(BIN)/python docs/build/intervals.py
	$(BIN)/python docs/build/results.py
	$(BIN)/python docs/build/study_file.py
	$(BIN)/python -m pytest -q tests/docs

clean:
	rm -rf .venv .venv-pandas2 out
