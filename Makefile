# `make` alone says what there is. Each target sets itself up: .venv is made, and made up to date
# when a pyproject.toml or constraints.txt have changed. The client is a distribution of its own,
# and always installed beside the server, so that pip looks for it nowhere else.

.DEFAULT_GOAL := help
.PHONY: help up test flaky chaos attack fuzz mutants schema typescript examples runtimes clients lint-openapi \
	peers-tests check fmt bench peers docs clean
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
# The first of these that is 3.11 or newer.
PYTHON ?= $(shell for python in python3.11 python3 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$python; break; }; done)
# Build dependencies are pinned as well: older pips read the first, newer ones the second.
PIP := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet
CODE := postdate_server scheduler metrics api worker cli clients benchmarks examples ops tests
TYPESCRIPT := clients/typescript
# Empty where there is no npm.
NPM := $(shell command -v npm)
ARGS ?=
SECONDS ?= 60
SEED ?= 1
STORE ?= single
ROUNDS ?= 10

help: ## This list
	@echo 'Postdate: an HTTP request with a future date on it.'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile
	@echo
	@echo 'More options: make up ARGS="--port 9000", make test ARGS="-k name tests/cli".'

up: $(VENV)/installed ## Run everything on this machine until Ctrl-C
	@exec $(BIN)/postdate up $(ARGS)

# Half of a test's time is waiting, so that four at a time suit two cores. ARGS="-n 0" runs them one
# after the other in pytest's own process, as a debugger needs it. Bytecode is kept whatever the
# environment says: each process that a test starts would compile all of our code for itself.
test: $(VENV)/installed-dev $(if $(NPM),typescript) ## Run the tests; ARGS=--slow: also those that take long
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 4 --dist worksteal $(ARGS)

flaky: $(VENV)/installed-dev ## Run all tests ROUNDS=10 times, on a busy machine and shuffled by SEED=1
	@$(BIN)/python -m tests.flaky --rounds $(ROUNDS) --seed $(SEED) -- $(ARGS)

chaos: $(VENV)/installed-dev ## Break a running Postdate for SECONDS=60 by SEED=1, STORE=single
	@$(BIN)/python -m tests.chaos --seconds $(SECONDS) --seed $(SEED) --store $(STORE) $(ARGS)

attack: $(VENV)/installed-dev ## Floods of hostile targets: how late is a good neighbour? 4 minutes
	@$(BIN)/python -m tests.attack $(ARGS)

fuzz: $(VENV)/installed-dev ## Feed anything to all that takes bytes for SECONDS=60, and then some
	@$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(ARGS)
	@$(if $(ARGS),true,$(BIN)/python -m pytest -q -n 2 --slow -m hypothesis --hypothesis-profile long --timeout 3600)

mutants: $(VENV)/installed-dev ## Break the code in small ways, and show that a test notices each
	@$(BIN)/python -m tests.mutants $(ARGS)

schema: $(VENV)/installed-dev ## Write what clients and the reference take from the schema
	@$(BIN)/python -m clients.generate
	@$(BIN)/python -m ops.docs.reference

typescript: $(TYPESCRIPT)/dist/index.js ## Build the TypeScript client; needs Node.js 20 and npm

examples: examples/node_modules/installed ## Install what the examples in JavaScript need, with npm

runtimes: $(TYPESCRIPT)/test/consumer/node_modules/installed ## Install Bun, Deno and workerd for slow tests; needs npm

clients: $(VENV)/installed-dev ## Make three clients of the OpenAPI document, and use them; needs npm
	@$(BIN)/python -m tests.generated

lint-openapi: $(VENV)/installed-dev ## Judge the OpenAPI document by Redocly and Spectral; needs npm
	@$(BIN)/python -m tests.generated.lint

peers-tests: $(VENV)/installed-dev ## Run the own tests of QStash's SDKs against Postdate; needs git, npm, port 443
	@$(BIN)/python -m tests.qstash.sdks.peers $(ARGS)

check: $(VENV)/installed-dev $(if $(NPM),typescript) ## Lint, formatting, types, import directions, documents and their snippets
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m clients.generate --check
	@$(BIN)/python -m ops.docs.reference --check
	@$(BIN)/python -m ops.docs
	@$(BIN)/python -m pytest -q -n 4 tests/mutants/test_passages.py tests/docs \
		--ignore tests/docs/test_site.py

fmt: $(VENV)/installed-dev ## Format the code
	@$(BIN)/ruff check --fix --quiet $(CODE) || true
	@$(BIN)/ruff format $(CODE)

bench: $(VENV)/installed ## Measure and record this commit: 10 minutes; ARGS=--quick: 3
	@$(BIN)/python -m benchmarks.trend $(ARGS)

peers: $(VENV)/installed ## Measure Postdate beside BullMQ and six other libraries: 25 minutes
	@$(BIN)/python -m benchmarks.peers $(ARGS)

docs: $(VENV)/installed-docs ## Build the documentation into build/docs; ARGS=--serve: and show it
	@$(BIN)/python -m ops.docs $(ARGS)

dist: $(VENV)/installed-dev $(TYPESCRIPT)/node_modules/installed ## Build all that a release has into dist, and prove that it installs and runs
	@$(PIP) --constraint constraints.txt --editable clients/python --editable '.[release]'
	@PIP_CONSTRAINT="$(CURDIR)/constraints.txt" $(BIN)/python -m ops.release
	@$(BIN)/python -m ops.rehearse

clean: ## Remove generated files, except the data dir .postdate
	rm -rf $(VENV) dist build *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis \
		.import_linter_cache .peers $(TYPESCRIPT)/dist $(TYPESCRIPT)/node_modules \
		$(TYPESCRIPT)/test/consumer/node_modules examples/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The virtual environment is made again if its Python is gone.
$(VENV)/installed: pyproject.toml clients/python/pyproject.toml constraints.txt
	@test -n '$(PYTHON)' || { echo 'Postdate needs Python 3.11 or newer.' >&2; exit 1; }
	@$(BIN)/python -c 'import pip' 2>/dev/null || { echo 'Making $(VENV)…' && $(PYTHON) -m venv --clear $(VENV); }
	@echo 'Installing…'
	@$(PIP) --constraint constraints.txt --editable clients/python --editable .
	@touch $@

$(VENV)/installed-docs: $(VENV)/installed
	@echo 'Installing what the documentation is built with…'
	@$(PIP) --constraint constraints.txt --editable clients/python --editable '.[docs]'
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	@echo 'Installing what tests and checks need…'
	@$(PIP) --constraint constraints.txt --editable clients/python --editable '.[dev,docs]'
	@touch $@

# npm's packages are pinned in package.json; a lock file would name the registry.
$(TYPESCRIPT)/node_modules/installed: $(TYPESCRIPT)/package.json
	@echo 'Installing what the TypeScript client is built with…'
	@cd $(TYPESCRIPT) && npm install --no-audit --no-fund --loglevel=error > /dev/null
	@touch $@

$(TYPESCRIPT)/dist/index.js: $(TYPESCRIPT)/node_modules/installed $(TYPESCRIPT)/tsconfig.build.json \
		$(wildcard $(TYPESCRIPT)/src/*.ts)
	@cd $(TYPESCRIPT) && rm -rf dist && npm run --silent build

# Our client as its users get it: packed, and no link to its sources.
examples/node_modules/installed: examples/package.json $(TYPESCRIPT)/dist/index.js
	@echo 'Installing what the examples need…'
	@cd examples && rm -rf node_modules/postdate && npm install --install-links --no-audit --no-fund \
		--loglevel=error > /dev/null
	@touch $@

# These take 430 MB, so a laptop may do without: then tests of the npm package are skipped.
$(TYPESCRIPT)/test/consumer/node_modules/installed: $(TYPESCRIPT)/test/consumer/package.json
	@echo 'Installing Bun, Deno, workerd, and what judges the npm package…'
	@cd $(TYPESCRIPT)/test/consumer && npm install --no-package-lock --ignore-scripts --no-audit \
		--no-fund --loglevel=error > /dev/null
	@touch $@
