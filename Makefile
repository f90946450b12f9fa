# Everything runs in .venv. The first target that needs it creates it, and recreates it when
# pyproject.toml has changed. `make PYTHON=python3.13` chooses the interpreter.

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV := .venv
RUN := $(VENV)/bin
BI := .bi
BI_PYTHON ?= $(shell for python in python3.12 python3.11 python3.10 $(PYTHON); do \
	$$python -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' 2>/dev/null \
		&& echo $$python && break; done)

JOBS ?= 3

.PHONY: help demo test run check docs audit test-clients test-sources test-bi test-slow mutants fuzz-sql fuzz-wire fixtures bench clean
.DEFAULT_GOAL := help

help:  ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | awk -F '\t' '{ printf "  make %-12s %s\n", $$1, $$2 }'

demo: $(VENV)/stamp  ## Make up a table, serve it, query it (PORT=5432 for a fixed port)
	@$(RUN)/tallyveil demo $(if $(PORT),--port $(PORT))

test: $(VENV)/stamp  ## Check everything and run the tests (JOBS=3 files at a time)
	@$(MAKE) --no-print-directory --keep-going --jobs=2 check run

# Where two processors do the work, a third run has work for them while others wait for a clock.
# Threads of BLAS would only wait for each other. Compiled modules are stored, whatever the
# environment sets: the tests start servers too, and each process would spend longer on compiling
# them than on importing them. Tests are compiled without details of assertions, since adding these
# takes longer than most rooms' tests; failed tests run again with them.
run: $(VENV)/stamp
	@unset PYTHONDONTWRITEBYTECODE; export OPENBLAS_NUM_THREADS=1; \
	status=0; $(RUN)/pytest -q --assert=plain --jobs=$(JOBS) || status=$$?; \
	if [ $$status = 1 ]; then $(RUN)/pytest -q --last-failed --last-failed-no-failures=none; fi; \
	exit $$status

check: $(VENV)/stamp  ## Check style, formatting and types
	@$(RUN)/ruff check .
	@$(RUN)/ruff format --check .
	@$(RUN)/mypy

docs: $(VENV)/stamp  ## Run the examples of README and docs/
	@$(RUN)/pytest -q tests/docs

audit: $(VENV)/stamp  ## Test every mechanism's claims (DRAWS=100000)
	@$(RUN)/tallyveil audit --draws $(or $(DRAWS),100000)

# The versions of docs/clients.md. What cannot be installed here is left out, and its tests tell why.
NODE_CLIENTS := pg@8 postgres@3 knex@3 kysely@0.28 drizzle-orm@0.45 sequelize@6 typeorm@1 slonik@47 zod@3

test-clients: $(VENV)/stamp .clients/stamp  ## Test real clients; installs those that pip and npm have
	@OPENBLAS_NUM_THREADS=1 $(RUN)/pytest -q -rs tests/clients

# Once all are there, they are not installed again before pyproject.toml or this file changes.
.clients/stamp: $(VENV)/stamp Makefile
	@mkdir -p .clients; all=yes; \
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,clients]' \
		|| { all=; echo "clients of the extra are left out" >&2; }; \
	{ command -v npm >/dev/null && npm install --silent --no-audit --no-fund --prefix .clients \
		$(NODE_CLIENTS); } || { all=; echo "clients of Node are left out" >&2; }; \
	for client in pgcli 'dbt dbt-core<1.12 dbt-postgres' 'django django>=5.2,<6 psycopg[binary]' \
		'duckdb duckdb==1.5.5 duckdb-extension-postgres-scanner==1.5.5'; do \
		folder=.clients/$${client%% *}; { $(PYTHON) -m venv $$folder && $$folder/bin/python -m pip install \
			--quiet --disable-pip-version-check $${client#* }; } \
			|| { all=; echo "$${client%% *} is left out" >&2; }; \
	done; \
	[ -z "$$all" ] || touch $@

# What needs no library of its own is among the tests of `run`.
test-sources: $(VENV)/stamp $(VENV)/sources  ## Test sources with libraries of their own; installs those that pip has
	@OPENBLAS_NUM_THREADS=1 $(RUN)/pytest -q -rs -m 'slow or not slow' tests/cube/test_source_contract.py \
		tests/cube/test_many_files.py tests/cube/test_object_store.py tests/cube/test_frames.py \
		tests/cube/test_spark.py tests/cube/test_adbc.py

$(VENV)/sources: $(VENV)/stamp
	@if $(RUN)/python -m pip install --quiet --disable-pip-version-check \
		--editable '.[dev,sources,spark]'; then touch $@; \
	else echo "sources of the extra are left out" >&2; fi

test-bi: $(VENV)/stamp  ## Test a live Superset in a headless browser
	@if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then \
		echo "chromium is missing. On Debian and Ubuntu: apt-get install chromium chromium-driver" >&2; \
	elif [ -n "$(BI_PYTHON)" ]; then $(MAKE) --no-print-directory $(BI)/stamp; \
	else echo "Superset needs Python 3.10 to 3.12: make test-bi BI_PYTHON=…" >&2; fi
	@$(RUN)/pytest -q -rs -m slow tests/bi

$(BI)/stamp: tests/bi/requirements.txt
	$(BI_PYTHON) -m venv $(BI)
	$(BI)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

test-slow: $(VENV)/stamp  ## Run long statistical and fuzz tests, and more examples of each property
	@HYPOTHESIS_PROFILE=explore $(RUN)/pytest -q -m 'slow or hypothesis'

mutants: $(VENV)/stamp  ## See which faults the tests find (ROOM=… SAMPLED=300 SEED=1)
	@$(RUN)/python -m tests.mutants $(if $(ROOM),--room $(ROOM)) $(if $(SAMPLED),--sampled $(SAMPLED)) \
		$(if $(SEED),--seed $(SEED)) --jobs $(or $(JOBS),2)

fuzz-sql: $(VENV)/stamp  ## Compare generated SQL with databases (STATEMENTS=200000 SEED=… SIZE=0: all)
	@FUZZ_STATEMENTS=$(or $(STATEMENTS),200000) FUZZ_SEED=$(or $(SEED),$(shell date +%s)) \
		FUZZ_SIZE=$(or $(SIZE),0) $(RUN)/pytest -q -x -m slow tests/corpora/test_generated_sql.py

fuzz-wire: $(VENV)/stamp  ## Send corrupted messages to a server (MESSAGES=1000000 SEED=… FIRST=0)
	@FUZZ_MESSAGES=$(or $(MESSAGES),1000000) FUZZ_SEED=$(or $(SEED),$(shell date +%s)) \
		FUZZ_FIRST=$(or $(FIRST),0) $(RUN)/pytest -q -x -m slow tests/proxy/test_fuzzed_wire.py

fixtures: $(VENV)/stamp  ## Rewrite the fixtures of plans and verdicts; review them before a commit
	@$(RUN)/pytest -q --write-fixtures \
		tests/rewriter/test_rewriter_fixtures.py tests/corpora/test_smartnoise.py
	@git diff --stat

bench: $(VENV)/stamp  ## Measure: make bench NAME=…, a module of bench/; prints a JSON object a line
	@$(if $(NAME),:,echo "name a module: make bench NAME=…, one of:" \
		$(basename $(notdir $(shell grep -l __main__ bench/*.py))) >&2; exit 2)
	@$(RUN)/python -m bench.$(NAME)

clean:  ## Remove the environment, the demo and every cache
	rm -rf $(VENV) $(BI) .mutants demo build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/stamp: pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo \
		"tallyveil needs Python 3.11 or later: install it, or give its path: make PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "Python's venv is missing. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
