# `make demo` and `make test` need only Python 3.11 or newer and make.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
LOCK := locks/dev.txt
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Options for every `pip install`, such as the index of another torch build.
PIP_ARGS ?=

.PHONY: demo fleet contract test check format types imports pytest ecosystem bench chaos docs conformance lock lock-ecosystem clean help

help:  ## Show this.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /make \1\t/' | expand -t 20

demo: .venv/.core  ## Serve a model on this machine, ask it for vectors, show what happened.
	@$(BIN)/shoal demo

fleet: .venv/.torch  ## Serve more models than fit in memory, of every task, and ask each of them.
contract: .venv/.contract  ## Review a page of a contract with nine of them, and tell what each step cost.

fleet: SCRIPT := ask
contract: SCRIPT := contract
fleet contract:
	@$(BIN)/shoal models pull --zoo
	@$(BIN)/shoal serve --config examples/fleet/serve.toml --log-level warning >/dev/null & \
	  trap "kill $$!; wait" EXIT; $(BIN)/python examples/fleet/$(SCRIPT).py

test: check pytest  ## Everything CI checks.

check: format types imports  ## The quick, static part of it.

format: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/.dev
	$(BIN)/mypy

imports: .venv/.dev
	$(BIN)/lint-imports --no-cache

# Many tests wait more than they compute, so two at a time end in about half the time. A file stays
# with one process: its fixtures start brokers.
JOBS ?= -n 2 --dist loadfile

pytest: .venv/.dev  ## The tests alone; ARGS='tests/core -x' narrows them.
	$(BIN)/python -m pytest $(JOBS) $(ARGS)

# Clients of ours that other libraries hold open until they are collected are theirs to close.
ecosystem: .venv/.ecosystem  ## LangChain, LlamaIndex, Haystack, mteb, agents and instructor against a server; GLiNER.
	PATH="$(CURDIR)/$(BIN):$$PATH" $(ECOSYSTEM)/bin/python -m pytest tests/ecosystem \
	  -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning $(ARGS)

bench: .venv/.torch  ## What the path itself costs, without a model's work.
	$(BIN)/python -m shoal.bench overhead

chaos: .venv/.core  ## Kill, stop and cut off real processes under load; ARGS='--quick'.
	$(BIN)/python -m shoal.bench chaos $(ARGS)

docs: .venv/.core  ## Write docs/settings.md and docs/cards.md anew from the code.
	$(BIN)/python -m shoal.cli.docs_settings docs/settings.md
	$(BIN)/python -m shoal.cli.docs_cards docs/cards.md

conformance: .venv/.dev  ## Check every kind of runtime, and write the table of docs/runtimes.md anew.
	$(BIN)/python -m shoal.cli.docs_runtimes docs/runtimes.md

.venv/.python:
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer is needed; set PYTHON=/path/to/python3" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@touch $@

.venv/.core: .venv/.python pyproject.toml $(LOCK)
	@echo "Installing Shoal and its light runtimes into .venv …"
	@$(PIP) install --quiet $(PIP_ARGS) -c $(LOCK) -e '.[onnx,gguf,media]'
	@touch $@

.venv/.torch: .venv/.core
	@echo "Installing PyTorch into .venv (some minutes the first time) …"
	@$(PIP) install --quiet $(PIP_ARGS) -c $(LOCK) -e '.[torch]'
	@touch $@

.venv/.contract: .venv/.torch
	@echo "Installing OpenAI's client into .venv …"
	@$(PIP) install --quiet $(PIP_ARGS) -c $(LOCK) openai
	@touch $@

.venv/.dev: .venv/.torch
	@echo "Installing the development tools into .venv …"
	@$(PIP) install --quiet $(PIP_ARGS) -c $(LOCK) pip
	@$(PIP) install --quiet $(PIP_ARGS) -c $(LOCK) -e '.[all]' --group dev
	@touch $@

# What those libraries need besides, or in other versions, laid over .venv: torch is there once.
ECOSYSTEM := .venv/ecosystem

$(ECOSYSTEM)/bin/python: .venv/.python
	@$(BIN)/python -m venv --without-pip $(ECOSYSTEM)
	@$(BIN)/python -c 'import sysconfig; base = sysconfig.get_path("purelib"); \
	  print(f"import site; site.addsitedir({base!r})")' \
	  > $$($@ -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/under.pth

.venv/.ecosystem: .venv/.dev $(ECOSYSTEM)/bin/python locks/ecosystem.txt
	@echo "Installing LangChain, LlamaIndex, Haystack, mteb, GLiNER and others into $(ECOSYSTEM) …"
	@$(ECOSYSTEM)/bin/python -m pip --disable-pip-version-check install --quiet $(PIP_ARGS) \
	  --no-deps -r locks/ecosystem.txt
	@touch $@

# torch moves only on purpose: `make lock TORCH=2.14.0`.
TORCH ?= $(shell sed -n 's/^torch==//p' $(LOCK))

lock:  ## Renew locks/dev.txt with the newest releases; review the diff and run `make test`.
	rm -rf .lock && $(PYTHON) -m venv .lock
	.lock/bin/python -m pip install --quiet --upgrade pip
	.lock/bin/python -m pip install --quiet $(PIP_ARGS) torch==$(TORCH) '.[all]' --group dev
	.lock/bin/python -m pip freeze --all --exclude shoal | sed 's/+[A-Za-z0-9.]*$$//' > $(LOCK)
	rm -rf .lock

# What `dev` has stays as it is, but for clients that these libraries hold back. Others ask for an
# older transformers, openai, rich or websockets than they need, and come without what they ask for.
HELD_BACK := cohere|huggingface_hub
ALONE := gliner instructor llama-index-llms-openai llama-index-llms-openai-like openai-agents

lock-ecosystem: .venv/.dev  ## Renew locks/ecosystem.txt over locks/dev.txt.
	rm -rf $(ECOSYSTEM) .venv/.ecosystem && $(MAKE) $(ECOSYSTEM)/bin/python
	grep -vE '^($(HELD_BACK))==' $(LOCK) > .venv/held.txt
	$(ECOSYSTEM)/bin/python -m pip install --quiet $(PIP_ARGS) -c .venv/held.txt --group ecosystem
	$(ECOSYSTEM)/bin/python -m pip install --quiet $(PIP_ARGS) --no-deps $(ALONE)
	$(ECOSYSTEM)/bin/python -m pip freeze --path $(ECOSYSTEM)/lib/python*/site-packages > locks/ecosystem.txt

clean:  ## Remove the environment and every cache.
	rm -rf .venv .lock .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
