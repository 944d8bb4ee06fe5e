# Make targets for people and for CI; `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Bench options, such as: make bench ARGS="ratio --pairs 1"
ARGS ?=
# Debian packages whose programs the tests start: nginx serves the test sites, Chromium shows the viewer's page,
# redis-server and postgresql are what several workers share, libfaketime gives one of them a wrong clock, tmux is
# a terminal whose screen can be read, fcgiwrap lets nginx serve git repositories, and gcc compiles what makes calls
# of the system fail.
DEBIAN_PACKAGES := nginx-light chromium-headless-shell redis-server postgresql libfaketime tmux git fcgiwrap gcc \
	libc6-dev
# In whose form the demo publishes its map: make demo RENDERER=squaremap
RENDERER ?= overviewer
# The kinds of wheels that Debian trixie, with glibc 2.41, takes on arm64.
ARM64 := $(foreach minor,$(shell seq 17 41),--platform manylinux_2_$(minor)_aarch64) --platform manylinux2014_aarch64
# The Pythons that pyproject.toml names.
PYTHONS := 3.11 3.12 3.13 3.14
# How many pytest processes; the end-to-end tests start servers and crawlers of their own. On two cores the other
# three use the time in which tests wait for a site's pace, a rest, a lease or a program. One more costs 10 s of a
# core, as each process loads all tests.
TEST_PROCESSES ?= 5

.DEFAULT_GOAL := help
.PHONY: help demo test test-all torture lint pythons bench docs image-check image-constraints clean debian-packages

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/runtime ## harvest a small made-up world over some days; in another form: RENDERER=squaremap
	$(BIN)/python -m tileharvest.demo --renderer $(RENDERER)

test: debian-packages lint pythons ## everything that must pass: style, types, import contracts, tests
	$(BIN)/pytest -n $(TEST_PROCESSES)

test-all: debian-packages lint pythons ## the same with every fault, kill and map of which `make test` tries a few
	$(BIN)/pytest -n $(TEST_PROCESSES) --all

lint: $(VENV)/development ## style, types and import contracts only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

torture: debian-packages $(VENV)/development ## kill harvests a thousand times, with the real maps, and compare what they leave; then make up input for hours; without the latter: options in ARGS
	nice $(BIN)/python -m tests.torture $(ARGS)
	$(if $(ARGS),,nice $(BIN)/pytest -n $(TEST_PROCESSES) --all -m hypothesis)

pythons: $(VENV)/development ## prepare the other Pythons of this computer for the tests of the package
	@# The program's dependencies, anew when they have changed. Without a network the tests go on without a Python.
	@own=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	PATH="$$PATH:$$(echo $${PYENV_ROOT:-$$HOME/.pyenv}/versions/*/bin | tr ' ' ':')"; \
	for version in $(PYTHONS); do \
		folder=build/pythons/$$version; \
		[ $$version = $$own ] && continue; \
		[ $$folder/done -nt requirements.txt ] && [ $$folder/done -nt container/constraints.txt ] && continue; \
		python$$version -c 'import ensurepip' 2> /dev/null || continue; \
		echo "Python $$version: the dependencies are installed for the tests"; \
		python$$version -m venv --clear $$folder && $$folder/bin/python -m pip install -qq --no-compile \
			--disable-pip-version-check --constraint container/constraints.txt --requirement requirements.txt \
			&& touch $$folder/done || rm -rf $$folder; \
	done

bench: $(VENV)/development ## tiles/s against stock Scrapy, and flatness; options in ARGS
	$(BIN)/python -m bench $(ARGS)

docs: $(VENV)/bin/python ## make a website of docs/ in build/docs
	$(BIN)/python -m pip install --quiet --requirement requirements-docs.txt
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "see it: build/docs/index.html"

image-check: $(VENV)/development ## build and run the image's files without a container engine, as root; options in ARGS
	$(MAKE) --no-print-directory debian-packages DEBIAN_PACKAGES="debootstrap redis-server postgresql git"
	$(BIN)/python -m pip install --quiet --requirement container/requirements-check.txt
	$(BIN)/hadolint Dockerfile
	$(BIN)/shellcheck container/start
	mkdir -p build
	@# Every package has a wheel for arm64 but these two: the image compiles one, and the other is Python alone.
	grep -vE '^(chompjs|pybloom_live)==' container/constraints.txt > build/arm64.txt
	$(BIN)/python -m pip install --quiet --dry-run --no-deps --ignore-installed --target build/arm64 \
		--only-binary=:all: --python-version 3.13 $(ARM64) --requirement build/arm64.txt
	$(BIN)/python -m pip wheel --quiet --no-deps --no-binary chompjs --wheel-dir build/arm64 \
		$$(grep -E '^(chompjs|pybloom_live)==' container/constraints.txt)
	sed 's/=$$/=c0ffee/' compose.env.example > build/compose.env
	$(BIN)/docker-compose --env-file build/compose.env config --quiet
	! $(BIN)/docker-compose --env-file compose.env.example config --quiet 2> build/compose.log
	grep -q "is missing a value" build/compose.log
	$(BIN)/python tools/check_image.py $(ARGS)

image-constraints: ## choose anew all versions that are in the image, after a change of requirements
	$(PYTHON) -m venv --clear build/image
	build/image/bin/pip install --quiet --requirement requirements.txt --requirement container/requirements.txt
	{ sed '/==/,$$d' container/constraints.txt; build/image/bin/pip freeze --all --exclude pip; } > build/constraints.txt
	mv build/constraints.txt container/constraints.txt

clean: ## remove the environment and all caches
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "TileHarvest needs Python 3.11 or newer; name one: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Stamps: installed again only when what they name has changed.
$(VENV)/runtime: requirements.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

$(VENV)/development: requirements-dev.txt $(VENV)/runtime
	$(BIN)/python -m pip install --quiet --requirement requirements-dev.txt
	@touch $@

# While packages are installed: Debian would start their servers, and fail where their ports are taken, and it
# would make a database for PostgreSQL. Tests start servers of their own.
define WITHOUT_SERVERS
	policy=/usr/sbin/policy-rc.d; clusters=/etc/postgresql-common/createcluster.d; made=$$clusters/tileharvest.conf; \
	if [ -e $$policy ]; then policy=; else printf '#!/bin/sh\nexit 101\n' > $$policy; chmod +x $$policy; fi; \
	mkdir -p $$clusters; echo 'create_main_cluster = false' > $$made; \
	trap 'rm -f $$policy $$made' EXIT;
endef

debian-packages:
	@missing=; for package in $(DEBIAN_PACKAGES); do \
		dpkg-query --show --showformat='$${Status}' $$package 2>/dev/null | grep -q ' installed$$' \
			|| missing="$$missing $$package"; \
	done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" -ne 0 ]; then \
		echo "The tests need Debian packages (those missing:$$missing); run first: sudo make debian-packages" >&2; \
		exit 1; \
	fi; \
	$(WITHOUT_SERVERS) \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends $$missing
