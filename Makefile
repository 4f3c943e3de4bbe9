# The two commands of the README are `make chat` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
LIVE_MODEL := qwen2.5-coder-1.5b
export MSG
# what is compiled is kept, also where a person's shell says otherwise: pip, pytest and many programs are started
unexport PYTHONDONTWRITEBYTECODE

chat: .venv/chat
	@$(BIN)/nanoclaw local pull --if-needed
	@$(if $(MSG),$(BIN)/nanoclaw -m "$$MSG" </dev/null,$(BIN)/nanoclaw)

test: lint
	@$(MAKE) --no-print-directory --jobs=2 types suite

suite: .venv/dev | tests/__pycache__
	$(BIN)/pytest

# of a fresh clone the tests are compiled once, not by each process that runs them
tests/__pycache__:
	-@$(BIN)/pytest -n 0 --collect-only -q >/dev/null

live: .venv/chat .venv/dev .venv/semantic .venv/bots
	$(BIN)/nanoclaw local pull $(LIVE_MODEL)
	NANOCLAW_TEST_BOTS="$(CURDIR)/.venv/bots/bin/python" NANOCLAW_TEST_MODEL="$${NANOCLAW_HOME:-$$HOME/.nanoclaw}/models/$(LIVE_MODEL)-instruct-q4_k_m.gguf" $(BIN)/pytest -n 0 -m live

browser: .venv/dev .venv/browser
	@command -v chromium || command -v chromium-browser || command -v google-chrome || { echo "Install Chromium first."; exit 1; }
	$(BIN)/pip install --quiet axe-playwright-python
	$(BIN)/pytest -n 0 -m live tests/plugins/browse tests/plugins/page

sandbox: .venv/dev
	$(BIN)/pytest -n 0 -m "live or not live" tests/sandbox
	$(BIN)/python bench/sandbox.py

lint: .venv/dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check

types: .venv/dev
	$(BIN)/mypy

# writes those of tests/figures.toml that are lower now, and refuses what is higher: a new room gets its line by hand
figures: .venv/dev
	@$(BIN)/python -m tests.figures

# all of it, also where a part of it breaks: some hours
TORTURE := torture.run torture.commands torture.damage removal kills
torture: .venv/dev
	@broken=0; $(BIN)/pytest -m hypothesis --hypothesis-profile=random || broken=1; \
	for part in $(TORTURE); do $(BIN)/python -m tests.$$part || broken=1; done; exit $$broken

docs: .venv/dev .venv/browser
	$(BIN)/python docs/make/config.py
	$(BIN)/python docs/make/core.py
	$(BIN)/python docs/make/picture.py

bench: .venv/dev
	$(BIN)/python bench/run.py

install: .venv/chat

# --no-compile: most modules of what is installed are never imported; the others are compiled at their first import
.venv/pip:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nanoclaw needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	touch $@

.venv/chat: .venv/pip pyproject.toml
	$(BIN)/pip install --quiet --no-compile --editable '.[local]'
	touch $@

.venv/dev: .venv/pip pyproject.toml
	$(BIN)/pip install --quiet --no-compile --editable '.[dev]'
	touch $@

.venv/browser: .venv/pip pyproject.toml
	$(BIN)/pip install --quiet --no-compile --editable '.[browser]'
	touch $@

.venv/semantic: .venv/pip pyproject.toml
	$(BIN)/pip install --quiet --no-compile --editable '.[semantic]'
	touch $@

# other programs' reading of Telegram's Bot API, to hold ours against: apart, as they pin what nanoclaw does not
.venv/bots: .venv/pip
	$(PYTHON) -m venv $@
	$@/bin/pip install --quiet python-telegram-bot==22.8 'aiogram==3.31.*' || { rm -r $@; exit 1; }
	touch $@

.PHONY: chat test suite live browser sandbox lint types figures torture docs bench install
