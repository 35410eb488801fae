# Two commands: `make quickstart` and `make test`. Everything lives in .venv.
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
BIN := .venv/bin
STAMP := .venv/.installed

# make quickstart MODEL=smollm2-135m STEPS=10 SEED=1
MODEL ?= tiny
STEPS ?=
SEED ?= 0
RUN ?= runs/quickstart-$(MODEL)-seed$(SEED)$(if $(STEPS),-$(STEPS)-steps)

# make board ENVS="nim-v0 kuhn_poker-v0" SEEDS=4
ENVS ?=
SEEDS ?= 32
BOARD ?= runs/board-$(SEEDS)-seeds

# One torch thread per process: under any other load, more are many times slower.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false
# The tests start hundreds of processes; without compiled files each of them would compile the product anew.
export PYTHONDONTWRITEBYTECODE :=

# More processes than processors: a part of the tests waits, of the slow ones a third of their time.
WORKERS := $(BIN)/python -m tests.workers

# The others need not be imported.
SLOW_FILES = $(sort $(shell grep -rl --include 'test_*.py' 'mark\.slow' tests))

.PHONY: help install docs site wheel quickstart board test outside nightly check lint types imports pytest slow vllm inspect bench clean gpu

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Create .venv and install SRL with all that its tests need

$(STAMP): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "SRL needs Python 3.11 or newer; give one with PYTHON=..."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --progress-bar off $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS)) --editable '.[train,dev]'
	@$(BIN)/python -m pip install --quiet --progress-bar off $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS)) --editable '.[puzzles]' \
		|| echo "reasoning-gym was not installed (pycosat needs a C compiler): tests of puzzles-v0 are skipped"
	@touch $@

quickstart: install ## Train a small league on the CPU, print its ratings, build its leaderboard
	$(BIN)/srl train quickstart-$(MODEL) --seed $(SEED) --out $(RUN) $(if $(STEPS),--set updates=$(STEPS))
	$(BIN)/srl league status $(RUN)
	$(BIN)/srl leaderboard build --store $(RUN)/league.db --schedule eval/final --out $(RUN)/site
	$(BIN)/srl report $(RUN)
	@echo
	@echo "Open the leaderboard:  $(abspath $(RUN))/site/index.html"
	@echo "Learning curves:       $(abspath $(RUN))/report.html"

board: install ## Play the published board's bots again, verify, compare (an hour; ENVS=nim-v0 SEEDS=4: a part)
	$(BIN)/srl leaderboard run $(or $(ENVS),--all) --seeds $(SEEDS) --out $(BOARD)
	$(BIN)/srl leaderboard bundle $(BOARD)
	$(BIN)/srl leaderboard verify $(BOARD)/bundles --level L3
	$(BIN)/srl leaderboard compare $(BOARD)/bundles --board leaderboards/published

test: check slow ## Run every check of a commit (15 minutes on two cores)

PARTS ?=
DEVICE ?= cuda
nightly: install ## Run the checks that are too long for a commit (hours; PARTS="door-verl long": these)
	$(BIN)/python -m tests.nightly $(PARTS)

# Types take one processor for half a minute: the tests have the other one meanwhile.
check: install ## Format, lint, types, import contracts, fast tests
	$(MAKE) --jobs 2 lint types imports pytest

docs: install ## Build the pages that are written from the code: API, commands, settings, faults, games
	$(BIN)/python -m srl_agents.cli.settings_page
	$(BIN)/python -m tests.faults.page
	$(BIN)/python -m benchmarks.environments.pages
	$(BIN)/python -m benchmarks.environments.prompts
	$(BIN)/python -m docs.site.reference

wheel: docs ## Build the wheel with all pages, dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

outside: docs ## Install the wheel outside of the repository; run the README and the notebooks there
	$(BIN)/python -m tests.outside

site: docs ## Build the documentation site, build/site/index.html; a dead link is a failure
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --fresh-env --quiet --jobs 2 \
		--doctree-dir build/doctrees --conf-dir docs/site docs build/site

lint: install ## Format, lint, plain words
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m tests.plain_words

types: install ## Types of packages and tests
	$(BIN)/mypy

imports: install ## Contracts of who may import whom
	$(BIN)/lint-imports

pytest: install ## The fast tests
	$(WORKERS) -n 3 -- --durations 15

slow: install ## The tests that take seconds each: training runs, crashes, attacks
	$(WORKERS) -n 4 $(SLOW_FILES) -- --durations 25 -m "slow and not nightly and not gpu and not vllm"

gpu: install ## Run what only a CUDA device shows, in ten minutes (DEVICE=cpu: each step at small size)
	$(BIN)/python -m benchmarks.gpu.checks --device $(DEVICE)

# vLLM pins its own torch and transformers, so it lives in an environment of its own. Three more packages
# of its CPU build do not match that torch and keep it from starting.
.venv-vllm/.installed: constraints-vllm.txt
	test -x .venv-vllm/bin/python || $(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install --quiet --progress-bar off --requirement constraints-vllm.txt
	.venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

vllm: install .venv-vllm/.installed ## Make .venv-vllm (4 GB) and run the tests against a real server
	SRL_VLLM_PYTHON=$(abspath .venv-vllm/bin/python) $(BIN)/pytest -m vllm tests/vllm

.PHONY: vllm-process
vllm-process: .venv-vllm/.installed ## Install SRL beside vLLM and run the tests of vLLM in one process
	.venv-vllm/bin/python -m pip install --quiet --progress-bar off --editable '.[train]' pytest hypothesis
	# Our tests take warnings for errors, and libraries warn of each other in an environment that vLLM pins.
	.venv-vllm/bin/python -m pytest -W ignore -m vllm tests/vllm/test_in_process.py

# Inspect brings some ninety packages, so it lives in an environment of its own, too.
.venv-inspect/.installed: constraints-inspect.txt
	test -x .venv-inspect/bin/python || $(PYTHON) -m venv .venv-inspect
	.venv-inspect/bin/python -m pip install --quiet --progress-bar off --requirement constraints-inspect.txt
	@touch $@

inspect: install .venv-inspect/.installed ## Make .venv-inspect and run the tests of `srl eval` in it
	SRL_INSPECT_PYTHON=$(abspath .venv-inspect/bin/python) $(BIN)/pytest -m "slow or not slow" tests/srl_agents/exports

# Ray lies beside .venv, whose packages it sees: what is trained with must not depend on what Ray brings.
SITE := import site; print(site.getsitepackages()[0])
.venv-ray/.installed: $(STAMP)
	test -x .venv-ray/bin/python || $(BIN)/python -m venv .venv-ray
	.venv-ray/bin/python -m pip install --quiet --progress-bar off 'ray==2.60.*'
	echo "import site; site.addsitedir('$$($(BIN)/python -c '$(SITE)')')" > $$(.venv-ray/bin/python -c '$(SITE)')/beside.pth
	@touch $@

.PHONY: ray
ray: .venv-ray/.installed ## Make .venv-ray and run the tests that need a Ray cluster, of this machine's processes
	.venv-ray/bin/python -m pytest -m ray tests/cluster

# On Python 3.11 pydantic refuses the TypedDict that SkyRL uses, hence typed.pth. verifiers needs other versions of
# what is in .venv, so it lies apart.
.venv-doors/.installed: constraints-doors.txt $(STAMP)
	test -x .venv-doors/bin/python || $(BIN)/python -m venv .venv-doors
	.venv-doors/bin/python -m pip install --quiet --progress-bar off --no-deps --requirement constraints-doors.txt
	echo "import site; site.addsitedir('$$($(BIN)/python -c '$(SITE)')')" > $$(.venv-doors/bin/python -c '$(SITE)')/beside.pth
	echo "import typing, typing_extensions as e; typing.TypedDict = e.TypedDict" > $$(.venv-doors/bin/python -c '$(SITE)')/typed.pth
	@touch $@

.venv-verifiers/.installed: pyproject.toml
	test -x .venv-verifiers/bin/python || $(PYTHON) -m venv .venv-verifiers
	.venv-verifiers/bin/python -m pip install --quiet --progress-bar off --editable '.[verifiers]' pytest hypothesis
	@touch $@

# OpenEnv needs another version of mcp than verifiers.
.venv-openenv/.installed: pyproject.toml
	test -x .venv-openenv/bin/python || $(PYTHON) -m venv .venv-openenv
	.venv-openenv/bin/python -m pip install --quiet --progress-bar off --editable '.[cli,openenv]' pytest hypothesis
	@touch $@

# RLlib and tinker-cookbook lie beside .venv, as Ray does. tinker-cookbook asks for a package of audio that is not
# everywhere, and needs none of it for text.
.venv-rllib/.installed: $(STAMP)
	test -x .venv-rllib/bin/python || $(BIN)/python -m venv .venv-rllib
	.venv-rllib/bin/python -m pip install --quiet --progress-bar off 'ray[rllib]==2.60.*'
	echo "import site; site.addsitedir('$$($(BIN)/python -c '$(SITE)')')" > $$(.venv-rllib/bin/python -c '$(SITE)')/beside.pth
	@touch $@

.venv-tinker/.installed: $(STAMP)
	test -x .venv-tinker/bin/python || $(BIN)/python -m venv .venv-tinker
	echo "import site; site.addsitedir('$$($(BIN)/python -c '$(SITE)')')" > $$(.venv-tinker/bin/python -c '$(SITE)')/beside.pth
	.venv-tinker/bin/python -m pip install --quiet --progress-bar off --no-deps tinker==0.38.0 tinker-cookbook==0.6.1
	.venv-tinker/bin/python -m pip install --quiet --progress-bar off aiohttp blobfile chz cloudpickle distro 'httpx[http2]' \
		orjson protobuf pyqwest pyrage sniffio termcolor tiktoken zstandard
	@touch $@

# Each way to another package has a target; tests/doors.py lists them, and docs/reference/doors.md their last results.
DOORS := skyrl areal verl verifiers openenv rllib tinker
.PHONY: doors $(DOORS:%=door-%)
doors: $(DOORS:%=door-%) ## Make environments of other packages and play our games through them

door-skyrl: .venv-doors/.installed ## ... through SkyRL
	.venv-doors/bin/python -m pytest -m "slow or not slow" tests/srl_envs/adapters/test_skyrl_environment.py

door-areal: .venv-doors/.installed ## ... through AReaL
	.venv-doors/bin/python -m pytest -m "slow or not slow" tests/srl_envs/adapters/test_areal_agent.py

door-verl: .venv-doors/.installed ## ... through veRL
	.venv-doors/bin/python -m pytest -m "slow or not slow" tests/srl_envs/adapters/test_verl_environment.py \
		tests/srl_envs/adapters/test_verl_loop.py tests/srl_agents/exports/test_verl_batches.py \
		tests/srl_agents/exports/test_verl_adapters.py

door-verifiers: .venv-verifiers/.installed ## ... through verifiers, and so prime-rl
	.venv-verifiers/bin/python -m pytest -m "slow or not slow" tests/srl_envs/adapters/test_verifiers_environment.py

door-openenv: .venv-openenv/.installed ## ... through OpenEnv
	.venv-openenv/bin/python -m pytest -m "slow or not slow" tests/srl_envs/adapters/test_openenv_server.py

door-rllib: .venv-rllib/.installed ## ... through RLlib, which leaves processes to the end of the interpreter
	.venv-rllib/bin/python -m pytest -W ignore -m ray tests/srl_envs/wrappers/test_numeric_rllib.py

door-tinker: .venv-tinker/.installed ## ... through the training loop of tinker-cookbook
	.venv-tinker/bin/python -m pytest -m "slow or not slow" tests/srl_envs/adapters/test_tinker_rollouts.py

bench: install ## Measure speed against peers (textarena, plain TRL)
	$(BIN)/python -m benchmarks.speed.env_steps
	$(BIN)/python -m benchmarks.speed.grpo_step

clean: ## Remove .venv and caches; runs/ stays
	rm -rf .venv .venv-vllm .venv-inspect .venv-ray .venv-doors .venv-verifiers .venv-openenv .venv-rllib .venv-tinker .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
