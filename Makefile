# make run     the whole site on http://127.0.0.1:8000, Ctrl-C ends it
# make release brings database and static files up to date, once for several machines
# make test    all tests; DB=postgres: those that use the database, on a private PostgreSQL
# make test-cluster  tests of three machines in networks of their own, by one process
# make check   style, types, import contracts, migrations, settings
# make audit   looks for known weaknesses in the installed packages; asks the network
# make bench   benchmarks
# make chaos   the whole site under fire, for ten minutes at the most: docs/reliability.md
# make clean   removes installed and generated files, not the data
export PORT ?= 8000
export DATA_DIR ?= ./var
export DEMO ?= 1
export SMALL ?= 0
DB ?= sqlite
# Where it is set, each process compiles all of the code anew, and pytest the tests.
unexport PYTHONDONTWRITEBYTECODE

# Not PYTHON, which setup.sh takes from the environment: make would replace it.
python := .venv/bin/python
postgres := $(if $(filter postgres,$(DB)),$(python) -m tests.support.postgres)
# Tests and checks must not depend on what `make run` would use.
ALONE := env -u PORT -u DATA_DIR -u DEMO -u SMALL -u DATABASE_URL
PRODUCTION := $(ALONE) SECRET_KEY=$$(head -c 48 /dev/urandom | base64 -w 0) PUBLIC_URL=https://tarry.example \
	DATA_DIR=/nonexistent DATABASE_URL=sqlite://:memory: RUNTIME_DIR=/nonexistent

run_tests := $(ALONE) $(postgres) $(python) -m pytest
# A test that fails beside others is run once more by itself: a busy machine is no fault of the site.
AGAIN := --last-failed --last-failed-no-failures none

.PHONY: setup run release test test-cluster check audit bench chaos clean
.DEFAULT_GOAL := run

setup:
	@DB=$(DB) ./setup.sh --dev

run:
	@./setup.sh
	@$(python) -m project.run

release:
	@./setup.sh
	@$(python) -m project.release

test:
	@echo "This takes about $(if $(filter postgres,$(DB)),12,20) minutes on two cores."
	@$(MAKE) --no-print-directory setup
	$(run_tests) -n auto --durations=20 --durations-min=1 || $(run_tests) $(AGAIN)

# One cluster for all tests, then others whose Redis fails over.
test-cluster:
	@CLUSTER=1 DB=postgres ./setup.sh --dev
	$(ALONE) $(python) -m pytest tests/cluster
	$(ALONE) $(python) -m pytest tests/cluster/test_sharing.py tests/cluster/test_faults.py --stores cluster -k "500 or state"
	$(ALONE) $(python) -m pytest tests/cluster/test_sharing.py tests/cluster/test_faults.py --stores sentinel -k "500 or state"

check: setup
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy -n 2
	.venv/bin/lint-imports --no-logo
	$(PRODUCTION) $(python) manage.py makemigrations --check --dry-run
	$(PRODUCTION) $(python) manage.py check --deploy --fail-level WARNING

# A package without an answer is a failure.
audit: setup
	$(python) -m pip_audit --strict --disable-pip --no-deps --progress-spinner off -r requirements.txt -r requirements-dev.txt

bench: setup
	$(ALONE) $(python) -m benchmarks

chaos: setup
	$(ALONE) $(python) -m tests.chaos

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
