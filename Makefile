# `make demo` and `make test` are all a fresh machine needs; both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: help install demo test test-kernels check format web bench soak accuracy results docs clean
help:
	@echo "make demo    learn to film simulated games, print tables, save out/report.html, demo.html and demo.png"
	@echo "make test    run the tests, doctests, README and docs"
	@echo "make test-kernels  run the kernels' tests without compiling them"
	@echo "make check   ruff, mypy --strict, import-linter"
	@echo "make format  let ruff format and fix what it can"
	@echo "make web     check, test and build the pages from frontend/ (needs npm; what it builds is committed)"
	@echo "make bench   measure speed against peers"
	@echo "make soak    ten minutes of serving with faults; ends in a table of what held and what was lost"
	@echo "make accuracy  the default against rivals at equal smoothness, on games and on real data (half an hour)"
	@echo "make results reproduce the experiments of the paper into docs/results.md (minutes)"
	@echo "make docs    build the docs site into site/"
	@echo "make install only set up .venv"

install: $(STAMP)
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'simile needs Python 3.11 or newer; set PYTHON=')"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[cli,dask,export,frames,minari,plot,serve,skops,studio,torch,tracking,tune,video]" \
		--group test --group check --group docs
	touch $@

demo: $(STAMP)
	MPLBACKEND=agg $(BIN)/simile demo --out out

test: $(STAMP)
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --quiet

# The kernels as plain Python: what numba would hide, such as an index out of bounds, shows here.
test-kernels: $(STAMP)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest --quiet tests/test_kernels.py tests/test_linear.py tests/test_forest.py tests/test_forest_edges.py
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest --quiet tests/test_predictor.py -k "twin or same or divergence"

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

web:
	cd frontend && npm install --silent && npm run --silent check && npm test --silent && npm run --silent build

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[bench]"
	for part in forest learning online files camera pages serving; do \
		($(BIN)/simile --version; $(BIN)/python benchmarks/$$part.py) | tee docs/assets/bench/$$part.txt; \
	done

soak: $(STAMP)
	$(BIN)/python benchmarks/soak.py > docs/assets/bench/soak.txt; status=$$?; cat docs/assets/bench/soak.txt; exit $$status

accuracy: $(STAMP)
	($(BIN)/simile --version; $(BIN)/python benchmarks/accuracy.py --jobs 2) | tee docs/assets/bench/accuracy.txt

results: $(STAMP)
	MPLBACKEND=agg $(BIN)/simile reproduce --seeds 6 --jobs 2 --out docs/assets/results --page docs/results.md

docs: $(STAMP)
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv out site
