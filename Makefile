# Two commands matter: `make demo` and `make test`. Each sets up all it needs.
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
PYTEST := $(PY) -m pytest
WARPLENS := $(VENV)/bin/warplens
# One process more than the two cores there are at least: tests of processes, servers and searches wait a good deal.
SPREAD := -n 3 --dist worksteal
# What Warplens installs and caches for the commands here stays in this folder.
export WARPLENS_HOME := $(CURDIR)/.tools/warplens
export WARPLENS_CACHE := $(CURDIR)/.tools/cache
# Bytecode too, whatever the environment says of it: the tests start hundreds of Python processes.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/.tools/pycache

.PHONY: demo toolchain bench bench-gpu test tests test-all tests-all test-beside test-share test-fast test-gpu test-vscode tests-vscode packages vsix generate lint lint-extension format lock clean setup bench-index

setup: $(READY)

$(READY): requirements.lock pyproject.toml tools/bootstrap.sh
	bash tools/bootstrap.sh $(VENV)
	touch $@

# The compiler and disassembler that this machine lacks, from NVIDIA's wheels.
toolchain: $(READY)
	$(WARPLENS) setup toolchain --yes

demo: toolchain
	$(WARPLENS) check examples/first --fail-on never

bench-index: $(READY)
	$(PY) -m tests.index.bench --baselines --out docs/benchmarks/index.json

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

format: $(READY)
	$(PY) tools/license_headers.py
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .
	if [ -e $(PACKAGES) ]; then $(NODE24) prettier --config extension/.prettierrc.json --write $(TYPESCRIPT); fi

# mypy takes one core for a minute where it has nothing kept: the tests begin beside it.
test: $(READY)
	$(MAKE) --no-print-directory -j2 lint tests

tests: toolchain
	$(PYTEST) -m "not gpu and not vscode and not thorough" $(SPREAD)

# As `test`, with all that `tests-vscode` needs made beside it: what is fetched, compiled and packaged waits a good deal.
test-beside:
	$(MAKE) --no-print-directory -j4 lint tests lint-extension vsix

# Everything that needs neither a card nor a browser; CONTRIBUTING.md says what `make test` leaves to it.
test-all: $(READY)
	$(MAKE) --no-print-directory -j2 lint tests-all

tests-all: toolchain
	$(PYTEST) -m "not gpu and not vscode" $(SPREAD)

# A share of what `make test` leaves: one of fourteen, by the day of the commit unless SHARE says another.
SHARE ?= $(shell echo $$(( $$(git log -1 --format=%ct 2>/dev/null || date +%s) / 86400 % 14 )))/14
test-share: toolchain
	$(PYTEST) --share $(SHARE) -m "in_share and not gpu and not vscode" $(SPREAD)

test-fast: $(READY)
	$(PYTEST) -m "not gpu and not vscode and not slow and not compiler" $(SPREAD) -q

test-gpu: $(READY)
	$(PYTEST) -m "gpu or thorough"

# The extension: `make vsix` packages it with the wheel it carries, `make test-vscode` tries it in real VS Code.
NODE24 := export PATH="$(CURDIR)/.tools/vscode/node/bin:$(CURDIR)/extension/node_modules/.bin:$$PATH";
PACKAGES := extension/node_modules/.package-lock.json
TYPESCRIPT := extension/src extension/test extension/*.mjs tests/e2e/vscode

test-vscode: toolchain lint-extension vsix
	$(MAKE) --no-print-directory tests-vscode

# Those tests alone, by what is packaged already.
tests-vscode:
	tests/e2e/vscode/run.sh

packages: $(PACKAGES)

$(PACKAGES): extension/package-lock.json tests/e2e/vscode/package-lock.json tests/e2e/vscode/prepare.sh
	tests/e2e/vscode/prepare.sh
	$(NODE24) cd extension && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

lint-extension: $(PACKAGES)
	$(NODE24) tsc -p extension && tsc -p tests/e2e/vscode
	$(NODE24) node --disable-warning=MODULE_TYPELESS_PACKAGE_JSON --test --test-reporter=dot extension/test/imports.test.ts
	$(NODE24) eslint --config extension/eslint.config.mjs $(TYPESCRIPT)
	$(NODE24) prettier --config extension/.prettierrc.json --check $(TYPESCRIPT)

vsix: $(READY) $(PACKAGES)
	$(PY) extension/bundle_wheel.py
	$(NODE24) cd extension && node esbuild.mjs && vsce package --no-dependencies --out warplens.vsix

# Figures for docs/benchmarks/: the first on any machine, the second on one with a GPU, Nsight Compute and time.
bench: toolchain
	mkdir -p docs/benchmarks
	$(PY) tests/bench/bench_binary.py --rounds 15 --json docs/benchmarks/binary.json
	$(PY) -m tests.bench.bench_addresses --json docs/benchmarks/addresses.json > /dev/null
	$(PY) -m tests.bench.bench_address_agreement --json docs/benchmarks/address_agreement.json > /dev/null
	$(PY) -m tests.bench.bench_lsp --json docs/benchmarks/language_server.json
	$(PY) -m tests.bench.bench_day --json docs/benchmarks/day.json > /dev/null
	$(PY) -m tests.server.lsp.fuzz --json docs/benchmarks/fuzz.json > /dev/null
	$(PY) -m tests.index.bench --baselines --out docs/benchmarks/index.json
	$(PY) tests/planted/evaluate.py --tier binary --json docs/benchmarks/planted.json
	$(PY) tests/planted/evaluate.py --tier counters --json docs/benchmarks/planted_counters.json
	$(PY) -m tests.bench.judge_arithmetic --json docs/benchmarks/judge_arithmetic.json
	$(PY) -m tests.bench.cli_startup --json docs/benchmarks/cli_startup.json > /dev/null
	$(PY) -m tests.bench.fuzz_fix --json docs/benchmarks/fuzz_fix.json > /dev/null
	$(PY) -m tests.bench.model_tokens --json docs/benchmarks/model_tokens.json

bench-gpu: toolchain
	$(PY) tests/bench/bench_optimize.py --candidates 32 --seconds 60 --json docs/benchmarks/optimize.json
	$(PY) tests/bench/bench_profile.py > docs/benchmarks/profile.json
	$(PY) tests/planted/evaluate.py --gpu --json docs/benchmarks/planted_card.json
	$(PY) -m tests.bench.bench_costs --json docs/benchmarks/costs.json > /dev/null
	$(PY) tests/bench/judge.py

# Files derived from definitions; a test fails when they are stale.
generate: $(READY)
	$(PY) docs/generate.py
	$(PY) extension/generate_settings.py

lock:
	uv pip compile pyproject.toml --group dev --universal --generate-hashes --no-emit-index-url --python-version 3.11 -q -o requirements.lock

clean:
	rm -rf $(VENV) .tools dist build artifacts extension/node_modules extension/dist extension/bundled
