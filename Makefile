# Two commands do everything on a fresh machine: make demo, make test.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The demo has a database of its own, takes no key and needs no network once installed.
DEMO := env -u DATABASE_URL -u ANTHROPIC_API_KEY -u EMBEDDING_MODEL -u TENANT_ID \
	FOOTNOTE_HOME="$(CURDIR)/.footnote/demo" HF_HUB_OFFLINE=1 $(BIN)/footnote
# Each folder of documents is a tenant of its own, so that two evaluations do not mix.
EVAL_ENV := env -u DATABASE_URL TENANT_ID="$(abspath $(DOCS))" FOOTNOTE_HOME="$(CURDIR)/.footnote/eval"
EVAL := $(EVAL_ENV) $(BIN)/footnote

.PHONY: demo test chaos lint eval ablation parity

demo: $(VENV)/.installed
	$(DEMO) migrate
	$(DEMO) ingest tests/sample/docs --source wiki --base-url https://wiki.halvermeer.example
	$(DEMO) ask "what does err 2041 mean?" \
		"box has been stuck at the border office for three days, who is able to let it through?" \
		"do we get shares or stock options?"

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# Everything goes wrong at once, for some 20 minutes; SCENARIO is one of chaos, restart-database, rolling
# and day, SEED repeats a plan, CHAOS has further options.
chaos: $(VENV)/.installed
	$(BIN)/python -m tests.chaos $(SCENARIO) $(if $(SEED),--seed $(SEED)) $(CHAOS)

lint: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

eval: $(VENV)/.installed
	@test -n "$(DOCS)" -a -n "$(CASES)" || { echo "usage: make eval DOCS=folder CASES=file.jsonl"; exit 2; }
	$(EVAL) migrate
	$(EVAL) ingest "$(DOCS)" --prune
	$(EVAL) eval "$(CASES)" $(if $(DUMP),--dump "$(DUMP)") $(if $(REPORT),--report "$(REPORT)")

ablation: $(VENV)/.installed
	@test -n "$(DOCS)" -a -n "$(CASES)" || { echo "usage: make ablation DOCS=folder CASES=file.jsonl"; exit 2; }
	$(EVAL) migrate
	$(EVAL) ingest "$(DOCS)" --prune
	$(EVAL) ablation "$(CASES)" $(if $(SKIP_TUTORIAL),--skip-tutorial)

# The lexical leg beside bm25s, over the same sections.
parity: $(VENV)/.installed
	@test -n "$(DOCS)" -a -n "$(CASES)" || { echo "usage: make parity DOCS=folder CASES=file.jsonl"; exit 2; }
	$(EVAL) migrate
	$(EVAL) ingest "$(DOCS)" --prune
	$(EVAL_ENV) $(BIN)/python -m tests.peers.bm25s_parity "$(CASES)"

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[local,dev]'
	touch $@
