# The commands that people and CI share. `make help` lists them.

PYTHON ?= python3
# On Linux the package index gives the CUDA build. README.md shows how to take another one.
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
RUN_EXTRAS := app,runner,zoo,gpu,postgres
# Writing byte code for every module of torch and transformers takes half of the installation;
# Python writes it anyway for the few modules that are imported.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --no-compile
# Else every new process compiles torch's modules again, which takes seconds.
unexport PYTHONDONTWRITEBYTECODE
# Only TORCH pins torch, so that it can name another build.
CONSTRAINTS := $(VENV)/constraints.txt
PYTEST_ARGS ?=
# Tests that run at a time, one more than two cores since many wait for a process that they start;
# 0 runs all tests in one process, as a debugger wants it.
JOBS ?= 3
# A process takes neighbouring tests, which share stores and servers, and helps the other one at the end.
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# Its theme announces a rewrite of mkdocs; the pins keep this one.
MKDOCS = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

# Prints the requirements of the named extras: not torch, but its own on every platform.
define PRINT_PACKAGES
import sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = [project["optional-dependencies"][name] for name in sys.argv[1].split(",")]
packages = sum(extras, project["dependencies"]) + ["networkx", "setuptools", "sympy"]
print(*(package for package in packages if not package.startswith("torch")), sep="\n")
endef
export PRINT_PACKAGES

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

.PHONY: help
help: ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1|/' \
		| while IFS='|' read -r name text; do printf 'make %-15s %s\n' "$$name" "$$text"; done

.PHONY: install
install: $(VENV)/.installed ## create .venv with everything, development tools included

.PHONY: run
run: $(VENV)/.installed-run ## install what is needed, measure, open the dashboard on port 8501
	@$(BIN)/hud up

.PHONY: demo
demo: $(VENV)/.installed-run ## open the dashboard on a synthetic history of half a year
	@$(BIN)/hud demo --serve

.PHONY: test
test: $(VENV)/.installed ## run all tests but those of the night (PYTEST_ARGS="tests/unit -k name" narrows it down)
	@$(PYTEST) $(PYTEST_ARGS)

.PHONY: test-nightly
test-nightly: $(VENV)/.installed ## run every test, the slow ones too: the zoo, a second torch, many examples
	@HYPOTHESIS_PROFILE=nightly $(PYTEST) --nightly tests $(PYTEST_ARGS)

.PHONY: check
check: $(VENV)/.installed ## check format, lint, types, import directions, spelling, documents and known vulnerabilities
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/codespell
	@for hook in trailing-whitespace end-of-file ascii large-files; do $(BIN)/pre-commit run --all-files $$hook || exit 1; done
	@$(BIN)/python docs/generate.py --check
	@$(BIN)/python docs/prose.py --check
	@$(MKDOCS) build --quiet --strict
	@$(BIN)/python .ci/audit.py

.PHONY: fix
fix: $(VENV)/.installed ## format the code and apply the safe fixes
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: words
words: $(VENV)/.installed ## write the snapshots of the tests again (PYTEST_ARGS="tests/cli" narrows it down)
	@$(BIN)/python -m pytest -n 0 --snapshot-update $(PYTEST_ARGS)

.PHONY: docs
docs: $(VENV)/.installed ## write the generated parts of the documents again, and the site to build/site
	@$(BIN)/python docs/generate.py
	@$(MKDOCS) build --quiet --strict

.PHONY: docs-serve
docs-serve: $(VENV)/.installed ## show the site of the documents on port 8000 while you write
	@$(MKDOCS) serve

.PHONY: dist
dist: $(VENV)/.installed ## build the wheel and the source distribution into dist/
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist .

.PHONY: bench
bench: $(VENV)/.installed-run ## measure how fast the quick start is; writes benchmarks/results/
	@$(BIN)/python benchmarks/startup.py

.PHONY: bench-precision
bench-precision: $(VENV)/.installed-bench ## measure how well repeats agree, beside peers; takes 2 h
	@$(BIN)/python -m benchmarks.precision.trials
	@$(BIN)/python -m benchmarks.precision

.PHONY: clean
clean: ## remove .venv and caches; measured data in .hud stays
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache

# pip is the last thing that venv writes: a creation that failed half-way starts again.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Compile HUD needs Python 3.11 or newer, but $(PYTHON) is" \
			"$$($(PYTHON) --version 2>&1 || true)." \
			"Name another one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# torch unpacks in one process while the other packages arrive in a second one.
$(VENV)/.installed-run: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Installing torch and what Compile HUD needs into $(VENV) (this happens once)."
	@grep -v '^torch==' constraints.txt > $(CONSTRAINTS)
	@$(PIP) --no-deps $(TORCH) & torch=$$!; trap "kill $$torch 2> /dev/null || true" EXIT; \
		$(BIN)/python -c "$$PRINT_PACKAGES" $(RUN_EXTRAS) \
			| $(PIP) -q --no-warn-conflicts -c $(CONSTRAINTS) -r /dev/stdin; \
		wait $$torch
	@$(PIP) --no-build-isolation -c $(CONSTRAINTS) -e ".[$(RUN_EXTRAS)]" \
		| sed '/already satisfied/d'
	@command -v c++ > /dev/null || echo "warning: there is no C++ compiler (c++), and without one" \
		"torch.compile cannot build CPU code. On Debian: apt-get install g++ python3-dev" >&2
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed-run
	@$(PIP) -q --no-build-isolation -c $(CONSTRAINTS) -e ".[$(RUN_EXTRAS),bench]"
	@touch $@

$(VENV)/.installed: $(VENV)/.installed-run
	@$(PIP) -q --no-build-isolation -c $(CONSTRAINTS) -e ".[$(RUN_EXTRAS),ray,runtimes,test,dev,docs]"
	@touch $@
