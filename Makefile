# `make demo` and `make test` are all a fresh machine needs; both set up .venv first, with what they use.
ifeq ($(OS),Windows_NT)
SHELL := bash
PYTHON ?= python
BIN := .venv/Scripts
else
PYTHON ?= python3
BIN := .venv/bin
endif
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
EXTRAS := cli,dask,export,frames,live,midi,minari,motion,onvif,plot,remote,s3,serve,skops,studio,torch,tracking,tune,video,vision
# Compiled modules are kept even where the environment says otherwise: workers and their children share them.
TESTS := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses auto --dist worksteal --quiet
CLI := .venv/.installed-cli
ALL := .venv/.installed-all

.PHONY: help install demo test test-all test-kernels coverage check format web dist bench millions soak attack accuracy results docs clean
help: ## say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

install: $(ALL) ## only set up .venv, with everything
$(CLI): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'simile needs Python 3.11 or newer; set PYTHON=')"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(PIP) --editable ".[cli]"
	touch $@
$(ALL): $(CLI)
	$(PIP) --editable ".[$(EXTRAS)]" --group test --group check --group docs
	touch $@

demo: $(CLI) ## learn to film simulated games, print tables, save out/report.html, demo.html and demo.png
	MPLBACKEND=agg $(BIN)/simile demo --out out

test: $(ALL) ## run the tests, doctests, README and docs
	$(TESTS)

test-all: $(ALL) ## run the long tests too: thousands of damaged files, the soak, the demo, studies in full
	$(TESTS) -m "" --hypothesis-profile long

coverage: $(ALL) ## run the tests, and show which lines and branches none of them reaches
	$(TESTS) --cov

# The kernels as plain Python: what numba would hide, such as an index out of bounds, shows here.
test-kernels: $(ALL) ## run the kernels' tests without compiling them
	NUMBA_DISABLE_JIT=1 $(TESTS) tests/test_kernels.py tests/test_linear.py tests/test_forest.py tests/test_forest_edges.py \
		tests/test_predictor.py -k "not test_predictor.py or twin or same or divergence"

check: $(ALL) ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(ALL) ## let ruff format and fix what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

web: ## check, test and build the pages from frontend/ (needs npm; what it builds is committed)
	cd frontend && npm install --silent && npm run --silent check && npm test --silent && npm run --silent build

dist: $(CLI) ## build wheel and sdist into dist/, and try the wheel in an environment of its own
	$(PIP) --group dist
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python tests/smoke.py

bench: $(ALL) ## measure speed against peers
	$(PIP) --editable ".[bench]"
	for part in cold_start forest learning scaling online files camera live pages serving; do \
		($(BIN)/simile --version; $(BIN)/python benchmarks/$$part.py) | tee docs/assets/bench/$$part.txt; \
	done

millions: $(ALL) ## learn from 20 million frames on a cluster of two small workers, one of which is killed (an hour)
	($(BIN)/simile --version; $(BIN)/python benchmarks/millions.py) | tee docs/assets/bench/millions.txt

soak: $(ALL) ## twenty minutes of serving with faults; ends in a table of what held and what was lost
	$(BIN)/python benchmarks/soak.py > docs/assets/bench/soak.txt; status=$$?; cat docs/assets/bench/soak.txt; exit $$status

attack: $(ALL) ## attack the service, the studio and the readers on this machine; ends in a table, held or broken
	$(BIN)/python benchmarks/attack.py > docs/assets/bench/attack.txt; status=$$?; cat docs/assets/bench/attack.txt; exit $$status

# record,NAME,PARTS,COMMAND: keep what a command prints, under the fingerprint of the code that its numbers are from
STAMP := $(BIN)/python benchmarks/stamp.py
define record
($(STAMP) $(2) --renew "make accuracy" && $(3)) > docs/assets/bench/$(1).part
mv docs/assets/bench/$(1).part docs/assets/bench/$(1).txt
cat docs/assets/bench/$(1).txt
endef

accuracy: $(CLI) ## measure the default on games and on real data, and renew the pages that quote it (an hour)
	$(PIP) --editable ".[bench]"
	$(call record,hardness,rounds games soccer,$(BIN)/python benchmarks/hardness.py)
	$(call record,axes,learn games soccer axes,$(BIN)/python benchmarks/axes.py)
	$(call record,tutorial,learn,$(BIN)/python benchmarks/tutorial.py)
	$(call record,demo,learn rivals games,MPLBACKEND=agg $(BIN)/simile demo --film --out out)
	cp out/demo.png out/viewfinder.webp docs/assets/
	$(call record,accuracy,learn rivals rounds games,$(BIN)/python benchmarks/accuracy.py --jobs 2)
	$(call record,eye,learn games,$(BIN)/python benchmarks/eye.py --jobs 2)
	$(call record,outliers,learn outliers games,$(BIN)/python benchmarks/outliers.py --jobs 2)
	$(call record,curve,learn games,$(BIN)/python benchmarks/curve.py --jobs 2)
	$(call record,loop,learn games,$(BIN)/python benchmarks/loop.py)
	$(call record,bands,learn games,$(BIN)/python benchmarks/bands.py)
	$(call record,bounds,learn rounds games,$(BIN)/python benchmarks/bounds.py --jobs 2)
	$(call record,delays,delays,$(BIN)/python benchmarks/delays.py)
	$(call record,intervals,intervals,$(BIN)/python benchmarks/intervals.py)
	$(call record,verdicts,learn,$(BIN)/python benchmarks/verdicts.py)
	$(call record,timing,learn games,$(BIN)/python benchmarks/timing.py --jobs 2)
	$(BIN)/python benchmarks/quotes.py demo accuracy axes bands bounds curve delays holding hardness intervals loop outliers timing tutorial smoother verdicts

results: $(CLI) ## reproduce the experiments of the paper into docs/results.md, and quote it in README.md (20 minutes)
	SIMILE_DATA=$${SIMILE_DATA:-../shared/data} MPLBACKEND=agg $(BIN)/simile reproduce --seeds 6 --jobs 2 --out docs/assets/results --page docs/results.md
	$(BIN)/python benchmarks/quotes.py results

docs: $(ALL) ## build the docs site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## remove .venv and what was made
	rm -rf .venv dist out site
