# Two commands do everything on a fresh Debian or Ubuntu machine with Python 3.11+:
#   make demo    runs the main job          make test    runs the tests
# Each sets up what it needs in .venv by itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE = 1

.PHONY: install demo gallery test test-system test-vllm test-trl test-trackers test-gym check format docs bench clean

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Sandlot needs Python 3.11 or newer; this is $$($(PYTHON) --version). Name another: make PYTHON=python3.12 install"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python's venv module is missing. Install it: sudo apt-get install python3-venv"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check uv torch==2.13.0 && $(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[dev]' \
	  || $(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: install
	@$(BIN)/python recipes/demo.py

test: install
	@command -v cc >/dev/null || { echo "No C compiler for the sandbox program. Install one: sudo apt-get install gcc libc6-dev"; exit 1; }
	@command -v git >/dev/null || { echo "The terminal environment needs git. Install it: sudo apt-get install git"; exit 1; }
	@$(BIN)/pytest -n 2 -m "not system"

# Longer proofs on the real machine: crashes, foreign servers, many connections, the other processor, a Docker engine (installed
# with apt-get if
# there is none; the tests start their own in a temporary folder).
test-system: install
	@sh tests/install_docker.sh
	@sh tests/install_cross.sh
	@$(BIN)/pytest -m system --timeout 300

# The token dialect against a real vLLM on the CPU, in a venv of its own outside this folder: 3.5 GB and minutes the first time.
test-vllm: install
	@sh tests/foreign/vllm.sh $(BIN)

# The auditor held to its gallery: every planted defect found, nothing confirmed against a clean twin; then once more with other names.
gallery: install
	@$(BIN)/python environments/broken/sweep.py
	@$(BIN)/python environments/broken/sweep.py --renamed 1

# TRL and verl on our exports, and TRL's GRPO on our environments, each in a venv of its own: 10 GB and minutes the first time.
test-trl: install
	@sh tests/foreign/trl.sh $(BIN)

# The trackers that are too large for our own tests, MLflow and wandb offline, in a venv of its own: 400 MB the first time.
test-trackers: install
	@sh tests/foreign/trackers.sh $(BIN)

# Audits real Gymnasium environments, installed in a venv of its own outside this folder.
test-gym: install
	@sh tests/foreign/gym.sh $(BIN)

# What a commit must pass besides the tests.
check: install
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && $(BIN)/basedpyright --level error
	@$(BIN)/pytest tests/test_layers.py tests/test_api.py

format: install
	@$(BIN)/ruff format --quiet . && $(BIN)/ruff check --quiet --fix .

# Reference pages are generated from the code.
docs: install
	@$(BIN)/python docs/generate.py

# make bench NAME=rollouts     prints one JSON object on its last line and rewrites its table in benchmarks/README.md
bench: install
	@test -f benchmarks/$(NAME).py || { echo "make bench NAME=...; there are:"; grep -l '^NAME = ' benchmarks/*.py | xargs -n1 basename -s .py; exit 2; }
	@$(BIN)/python benchmarks/$(NAME).py $(ARGS)

clean:
	rm -rf $(VENV) runs
