# The same short commands that CI runs. `make check` is what a change must pass.
PYTHON ?= python3
VENV   ?= .venv
RUN    := $(VENV)/bin/python

.PHONY: check venv lint types test test-all mutations docs site bench clean

check: lint types site test     ## all that CI asks of the source

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --upgrade pip
	$(RUN) -m pip install --quiet -e . --group dev
	touch $@

venv: $(VENV)/ready             ## the environment in .venv

lint: venv                      ## ruff
	$(RUN) -m ruff check .

types: venv                     ## mypy, strict
	$(RUN) -m mypy

test: venv                      ## the tests that every change must pass
	$(RUN) -m pytest -n auto --dist worksteal

test-all: venv                  ## all tests: every kill, every example, what is marked slow
	SOP_TESTS=all $(RUN) -m pytest -n auto --dist worksteal

mutations: venv                 ## every mechanism that tests/mutations names taken out once: some test must turn red
	$(RUN) tests/mutations/run.py --jobs 2

docs: venv                      ## the tables of the documents, made anew from the code
	$(RUN) docs/generate.py

site: venv                      ## the documents as a site in site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet

bench: venv                     ## the engine's figures, in one run
	$(RUN) benchmarks/engine.py

clean:                          ## what can be made again
	rm -rf $(VENV) dist build site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
