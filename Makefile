# make demo: everything, on the embedded corpus. make test: all quick tests. make help: the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test slow bench pictures wheel clean help

help:
	@echo "make demo          set up .venv and run the whole main job on the embedded corpus"
	@echo "make test          set up .venv with the development tools; lint, types and quick tests"
	@echo "make slow          the tests that take minutes"
	@echo "make bench         the quick benchmarks; make bench NAME=multi30k runs one (data: REGARD_DATA)"
	@echo "make pictures      take the pictures of the web page anew, with the demo's model (needs Chromium)"
	@echo "make wheel         build a wheel into dist/"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "regard needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/.installed

demo: $(VENV)/.installed
	$(BIN)/regard demo --out runs/demo --fresh

test: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

slow: $(VENV)/.installed-dev
	$(BIN)/pytest -m slow

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks $(NAME)

pictures: $(VENV)/.installed-dev
	$(BIN)/python docs/pictures.py runs/demo/model

wheel: $(VENV)/.installed-dev
	$(BIN)/python -m build --wheel --outdir dist .

clean:
	rm -rf build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
