# Everything works from a fresh clone with python3 (3.11 or newer) and make; nothing else has to be installed first.
#
#   make demo       the same prompts by AR, SD and SSD, live, with real models (fetched once, about 1.6 GB)
#   make demo-toy   the same with tiny models, in seconds, without a download
#   make test       the test suite; `make test-all` adds the tests that need real models, minutes of load, or node and npm
#                   (the npm package `openai`; where they are missing that test is skipped and says so: pytest -rs)
#   make lint       ruff, mypy and formatting
#   make bench      measure AR, SD and SSD; writes a record into benchmarks/results/
#   make figures    rewrite the figures in README and docs from those records
#
# PYTHON chooses the interpreter, VENV the folder of the environment. On a machine whose package index would bring
# an accelerator build of torch, TORCH_INDEX=URL names the index of the CPU builds. JOBS is how many tests run at once.

PYTHON ?= python3
JOBS ?= 2
VENV ?= .venv
TORCH_INDEX ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
BENCH_RECORD ?= benchmarks/results/qwen-humaneval.json
SAGUARO_MODELS ?= $(HOME)/.cache/saguaro-models

.PHONY: install demo demo-toy test test-all bench figures lint format clean
.DEFAULT_GOAL := install

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; set PYTHON=..., for example: make install PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
	  || { echo "python3 could not make an environment; install its venv module (Debian: python3-venv)"; exit 1; }
	@echo "installing into $(VENV): some hundred megabytes, once"
	$(PIP) install -q -c constraints.txt $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
	$(PIP) install -q -c constraints.txt hatchling editables
	$(PIP) install -q -c constraints.txt --no-build-isolation -e '.[dev]'
	@scripts/have-compiler || { echo "no C compiler here: installing one into $(VENV)"; $(PIP) install -q -c constraints.txt ziglang; }
	@touch $@

demo: install
	$(BIN)/saguaro demo

demo-toy: install
	$(BIN)/saguaro demo --toy

test: install
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadgroup

test-all: install
	$(BIN)/python -m pytest -q -m ""

bench: install
	$(BIN)/saguaro pull qwen
	$(BIN)/saguaro bench --target $(SAGUARO_MODELS)/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf \
	  --draft $(SAGUARO_MODELS)/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf \
	  --modes ar,sd,ssd --prompts benchmarks/prompts/humaneval/prompts.jsonl --num-prompts 16 --max-tokens 128 \
	  --temperature 0 --dtype int8 --target-device cpu:0 --draft-device cpu:1 --repeats 5 --equal-hardware --bandwidth \
	  --json $(BENCH_RECORD)

figures: install
	$(BIN)/python scripts/figures.py
	$(BIN)/saguaro figures --paper docs/figures --records benchmarks/results
	$(BIN)/python scripts/api_table.py

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
