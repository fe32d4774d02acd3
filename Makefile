# Two commands do everything on a fresh Debian or Ubuntu machine with Python 3.11+:
#   make demo    runs the main job          make test    runs the tests
# make test-changed BASE=... runs those that a change can reach, make test-all every test there is.
# Each sets up what it needs in .venv by itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
# Where it is set, each of the many commands that tests start compiles all it imports again: a third of their time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo gallery test test-changed test-all test-system test-system-changed system-tools test-browser test-aarch64 test-vllm test-trl test-peft test-flash test-trackers test-gym test-clients test-interop test-ray test-chaos test-chaos-ray check format docs lock wheels bench clean

install: $(VENV)/installed

# Everything at the versions and hashes of requirements/dev.txt, torch at the version of requirements/torch.txt (why: see there).
$(VENV)/installed: pyproject.toml requirements/dev.txt requirements/torch.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Sandlot needs Python 3.11 or newer; this is $$($(PYTHON) --version). Name another: make PYTHON=python3.12 install"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python's venv module is missing. Install it: sudo apt-get install python3-venv"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@$(PIP) --require-hashes -r requirements/uv.txt && $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt \
	  || $(PIP) --require-hashes -r requirements/dev.txt
	@$(PIP) -r requirements/torch.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

demo: install
	@$(BIN)/python recipes/demo.py

test: install
	@command -v cc >/dev/null || { echo "No C compiler for the sandbox program. Install one: sudo apt-get install gcc libc6-dev"; exit 1; }
	@command -v git >/dev/null || { echo "The terminal environment needs git. Install it: sudo apt-get install git"; exit 1; }
	@$(BIN)/pytest -n 2 -m "not system"

# The tests that the changes since a commit can reach (tests/selection.py says how); what is left out is named.
# `make test-changed` alone is for what is not committed yet.
BASE ?= HEAD
test-changed: install
	@files=$$($(BIN)/python tests/selection.py $(BASE)) && $(BIN)/pytest -n 2 -m "not system" $$files

# Longer proofs on the real machine: crashes, foreign servers, many connections, the other processor, a browser, a Docker engine,
# a Prometheus, a NATS server (installed with apt-get if missing; tests start their own in a temporary folder). Some: MARKS="...".
MARKS ?= system
SYSTEM_TESTS = $$(grep -rl --include='test_*.py' 'mark\.system' tests environments)
test-system: system-tools
	@$(BIN)/pytest -n 2 --dist loadfile -m "$(MARKS)" --timeout 900 $(SYSTEM_TESTS)

# Everything but chaos, which is drawn anew each time.
test-all: test
	@$(MAKE) --no-print-directory test-system MARKS="system and not chaos"

# Of these, the fixed core, and those that the changes since a commit can reach: what CI runs. UNTIL=EPOCH begins none after that moment
# and names what is left.
UNTIL ?=
# A change that reaches most of them is more than CI has time for: then the core alone runs, and that is said.
MOST_SYSTEM_FILES := 40
test-system-changed: system-tools
	@$(BIN)/pytest -n 2 --dist loadfile -m core --timeout 900 tests/system
	@files=$$($(BIN)/python tests/selection.py --marked system $(BASE)) || exit 1; set -- $$files; \
	if [ $$# -gt $(MOST_SYSTEM_FILES) ]; then echo "$$# files of system tests are reached: only the core was run; make test-all runs them"; exit 0; fi; \
	[ $$# = 0 ] || $(BIN)/pytest -n 2 --dist loadfile -m "system and not core and not chaos" --timeout 900 -rs \
	  $(if $(UNTIL),--until $(UNTIL)) "$$@" || [ $$? = 5 ]  # 5: all of them are core

system-tools: install
	@sh tests/install/debootstrap.sh
	@sh tests/install/docker.sh
	@sh tests/install/cross.sh
	@sh tests/install/chromium.sh
	@sh tests/install/node.sh
	@sh tests/install/prometheus.sh
	@sh tests/install/nats.sh
	@sh tests/install/otlp.sh $(BIN)/python >/dev/null

# Every page of `sandlot view` in a real Chromium (installed with apt-get if there is none). `make test-system` runs these tests too.
test-browser: install
	@sh tests/install/chromium.sh
	@$(BIN)/pytest -m system --timeout 300 tests/system/test_*_in_browser.py

# The sandbox on an emulated aarch64 machine with a kernel of its own: 1.2 GB the first time, and most of an hour. Others: TESTS="...".
TESTS ?= tests/unit/sandbox tests/contract/test_sandbox_contract.py tests/contract/test_machine_backend_contract.py tests/contract/test_files_contract.py
test-aarch64: install
	@sh tests/foreign/aarch64.sh $(BIN) $(TESTS)

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

# PEFT itself on adapters that it writes and our engine mixes: a few MB the first time.
test-peft: install
	@sh tests/foreign/peft.sh $(BIN)

# FlashAttention's kernels with the forest's mask, compiled for a Hopper GPU, which needs none: 130 MB the first time.
test-flash: install
	@sh tests/foreign/flash.sh $(BIN)

# The trackers that are too large for our own tests, MLflow and wandb offline, in a venv of its own: 400 MB the first time.
test-trackers: install
	@sh tests/foreign/trackers.sh $(BIN)

# Audits real Gymnasium environments, installed in a venv of its own outside this folder.
test-gym: install
	@sh tests/foreign/gym.sh $(BIN)

# The openai and anthropic packages send images to our model server, in a venv of its own: 60 MB the first time.
test-clients: install
	@sh tests/foreign/clients.sh $(BIN)

# Programs of other projects on our exports, and ours on their tasks, each in an environment of its own; some only:
# KIND="harbor openenv". The last lines name what passed, what failed, and what did not run here and why; also if interrupted.
test-interop: install
	@sh tests/foreign/interop.sh $(BIN) $(KIND)

# Rollouts on a Ray cluster of several nodes on this machine, some killed and some joining, in a venv of its own: 300 MB the first time.
test-ray: install
	@sh tests/foreign/ray.sh $(BIN)

# What runs and trainings need is killed at random: workers, sandboxes, joined workers, model servers, the command itself, ten minutes
# for each kind (CHAOS_S), an hour in all; the books must balance. One kind only: KIND=joined. `make test-system` has a short one.
CHAOS_S ?= 600
test-chaos: install
	@CHAOS_S=$(CHAOS_S) $(BIN)/pytest -m chaos -s --timeout 3600 tests/system/test_chaos.py $(if $(KIND),-k $(KIND))

# The same with Ray nodes that die and join, in the venv of `make test-ray`.
test-chaos-ray: install
	@CHAOS_S=$(CHAOS_S) sh tests/foreign/ray.sh $(BIN) -s -o timeout=3600 tests/foreign/ray_chaos.py

# What a commit must pass besides the tests.
check: install
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && $(BIN)/basedpyright --level error
	@$(BIN)/pytest tests/test_layers.py tests/test_api.py

format: install
	@$(BIN)/ruff format --quiet . && $(BIN)/ruff check --quiet --fix .

# Reference pages are generated from the code.
docs: install
	@$(BIN)/python docs/generate.py

# Renews requirements/*.txt from pyproject.toml, and the SBOM and licences that wheels carry.
lock: install
	@sh requirements/lock.sh $(BIN)

# Wheels for x86-64 and aarch64 in dist/, one of them by a cross compiler (tests/install/cross.sh installs it).
wheels: install
	@for processor in x86_64 aarch64; do \
	  SANDLOT_PROCESSOR=$$processor $(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist . || exit 1; done
	@ls dist

# make bench NAME=rollouts     prints one JSON object on its last line and rewrites its table in benchmarks/README.md
bench: install
	@test -f benchmarks/$(NAME).py || { echo "make bench NAME=...; there are:"; grep -l '^NAME = ' benchmarks/*.py | xargs -n1 basename -s .py; exit 2; }
	@$(BIN)/python benchmarks/$(NAME).py $(ARGS)

clean:
	rm -rf $(VENV) runs
