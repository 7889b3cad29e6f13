# make run     the whole site on http://127.0.0.1:8000, Ctrl-C ends it
# make test    all tests; DB=postgres: on a private PostgreSQL
# make check   style, types, import contracts, migrations, settings
# make bench   benchmarks
# make clean   removes what was installed or generated here, not the data
export PORT ?= 8000
export DATA_DIR ?= ./var
export DEMO ?= 1
export SMALL ?= 0
DB ?= sqlite

PYTHON := .venv/bin/python
PYTEST := $(if $(filter postgres,$(DB)),$(PYTHON) -m tests.with_postgres) $(PYTHON) -m pytest
# Tests and checks must not depend on what `make run` would use.
ALONE := env -u PORT -u DATA_DIR -u DEMO -u SMALL
PRODUCTION := $(ALONE) SECRET_KEY=$$(head -c 48 /dev/urandom | base64 -w 0) PUBLIC_URL=https://tarry.example \
	DATA_DIR=/nonexistent DATABASE_URL=sqlite://:memory: RUNTIME_DIR=/nonexistent

.PHONY: setup run test check bench clean
.DEFAULT_GOAL := run

setup:
	@./setup.sh --dev

run:
	@./setup.sh
	@$(PYTHON) -m project.run

test: setup
	$(ALONE) $(PYTEST) -n auto --ignore=tests/flows
	$(ALONE) $(PYTEST) tests/flows

check: setup
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	.venv/bin/lint-imports --no-logo
	$(PRODUCTION) $(PYTHON) manage.py makemigrations --check --dry-run
	$(PRODUCTION) $(PYTHON) manage.py check --deploy --fail-level WARNING

bench: setup
	$(ALONE) $(PYTHON) -m benchmarks

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
