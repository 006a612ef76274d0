# `make help` lists the targets. Everything runs from .venv, which `make setup` builds from the lock.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup demo test check fix lock differential fuzz model campaign weather chaos soak sensitivity bench storm

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 16

setup: $(VENV)/.ready ## build .venv from the lock (done by the other targets when needed)

$(VENV)/.ready: requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## embedded PostgreSQL, local SES + SNS, the Procfile's processes; ONCE=1 checks the outcome and stops
	@$(BIN)/mail-service demo $(if $(ONCE),--once)

test: setup check ## checks, then every test that needs nothing but Python
	@$(BIN)/python -m pytest -n 2 --dist loadfile
	@echo "left out here, run by .ci/run: make differential (npm), make model (spin, gcc)"

check: setup ## format, lint, types, import contracts, migrations
	@$(BIN)/ruff format --check --quiet . || { echo "run: make fix"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports

fix: setup ## format, and repair what lint can repair
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .

lock: setup ## compile the lock files from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header --extra dev -c requirements.txt pyproject.toml -o requirements-dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header tests/fuzz/requirements.in -o tests/fuzz/requirements.txt

differential: setup ## compare signature verification with AWS's own validator (needs npm)
	@$(BIN)/python -m pytest -m differential tests/differential

fuzz: setup ## fuzz what strangers write to us, 60 s for each target (SECONDS=600, JOBS=1)
	@cmp -s tests/fuzz/requirements.txt $(VENV)/fuzz/requirements.txt || { rm -rf $(VENV)/fuzz && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --target $(VENV)/fuzz -r tests/fuzz/requirements.txt && \
	  cp tests/fuzz/requirements.txt $(VENV)/fuzz/; } || true
	@PYTHONPATH=$(CURDIR)/$(VENV)/fuzz $(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60) --jobs $(or $(JOBS),2)

model: setup ## search the protocol's model exhaustively, and its mutants (needs spin and gcc)
	@$(BIN)/python -m tests.model

campaign: setup ## kill workers and web in mid-work, 1,000 sign-ups; an auditor judges (SEED=1)
	@$(BIN)/python -m tests.campaign --emails 1000 --kills 30 --seed $(or $(SEED),1)

weather: setup ## SES turns bad in eight ways in the middle of 1,000 emails each (15 minutes)
	@$(BIN)/python -m tests.weather --emails 1000

chaos: setup ## everything goes wrong at once, 10,000 emails; an auditor judges (SEED=1, half an hour)
	@$(BIN)/python -m tests.chaos --emails 10000 --seed $(or $(SEED),1)

soak: setup ## chaos with new seeds for HOURS=8, to the first violation
	@$(BIN)/python -m tests.chaos --emails 2000 --soak $(or $(HOURS),8)

sensitivity: setup ## prove the proofs: seeded bugs that state machine, chaos and weather must catch (hours)
	@$(BIN)/python -m tests.statemachine.sensitivity
	@$(BIN)/python -m tests.chaos.sensitivity
	@$(BIN)/python -m tests.weather.sensitivity

bench: setup ## compare with raw boto3 and with peers, side by side (half an hour; BENCH="--quick")
	@$(BIN)/python -m benchmarks $(BENCH)

storm: setup ## SNS brings everything again and again, also while rows are held (minutes; STORM="--redeliveries 20000")
	@$(BIN)/python -m benchmarks.storm $(STORM)
