# Two commands matter: `make demo` and `make test`. Each sets up all it needs.
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
PYTEST := $(PY) -m pytest

.PHONY: demo test test-fast test-gpu lint format lock clean setup

setup: $(READY)

$(READY): requirements.lock pyproject.toml tools/bootstrap.sh
	bash tools/bootstrap.sh $(VENV)
	touch $@

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

format: $(READY)
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

test: lint
	$(PYTEST) -m "not gpu and not vscode" -n 2

test-fast: $(READY)
	$(PYTEST) -m "not gpu and not vscode and not slow and not compiler" -n 2 -q

test-gpu: $(READY)
	$(PYTEST) -m gpu

lock:
	uv pip compile pyproject.toml --group dev --universal --generate-hashes --no-emit-index-url --python-version 3.11 -q -o requirements.lock

clean:
	rm -rf $(VENV) .tools dist build artifacts
