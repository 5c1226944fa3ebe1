# make TARGET: `make help` lists the targets.
#
#   PYTHON  the interpreter that makes the environment (3.10 or newer)
#   VENV    where the environment is; each target that needs it makes it, and makes it again after a pyproject.toml changed
#   TORCH   the torch to install first; it decides between a CPU and an accelerator build
#   JOBS    test processes (each computes with one thread)
#   EVERY   make conformance gives torch.onnx's exporters every so many'th operator (they are slow); EVERY=1 is all of them
#   MINUTES, SEED  make fuzz runs random programs for this time, from this one on: make fuzz MINUTES=10 SEED=20000
#   ARGS    more arguments for pytest, the demo, the benchmark, the conformance run or the fuzzer: make test ARGS="tests/core -x",
#           make bench ARGS=--large for models of 1 and 7 billion parameters (30 GB of disk)

PYTHON ?= python3
VENV   ?= .venv
TORCH  ?= torch==2.13.0
JOBS   ?= 2
EVERY  ?= 20
MINUTES ?= 10
SEED   ?= 0
ARGS   ?=

BIN     = $(VENV)/bin
PIP     = $(BIN)/python -m pip --disable-pip-version-check
PLUGINS = $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))
CONFORMANCE = OMP_NUM_THREADS=1 $(BIN)/python -m tests.conformance --jobs $(JOBS) --out conformance.jsonl
PYTEST  = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS)
# test-quick leaves these out. The files call torch.export in every test, start processes, wait for the disk or run random
# programs; the single tests start processes, write many megabytes, compile or need the capture of logs.
SLOW    = cli_[!p]* scaffold reentrancy autocast export export_* functionalize functionalize_random higher_order scan dynamic \
          restrictions restricted_calls derived_sizes deferred refusals direct_io
SLOW_TESTS = serialize_accidents.py::test_a_kill_leaves_the_old_file read_ahead.py::test_the_bytes_are_those_of_one_thread \
             atomic_folder.py::test_an_interrupt_at_any_change_leaves_the_old_or_the_new_folder \
             cli_plugins.py::test_nothing_is_imported cli_plugin_commands.py::test_only_a_command_that_runs_is_imported \
             state_and_wrappers.py::test_a_wrapped_model_exports_as_the_model_inside state_and_wrappers.py::test_a_compiled_function \
             folding.py::test_the_reason_why_a_node_is_not_folded_is_logged

.PHONY: help setup demo test-quick test test-full third-parties libraries torchvision transformers sweep conformance optimizations peer-suite compat faults fuzz lint docs format bench dist clean
.DELETE_ON_ERROR:

help: ## show this text
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{ printf "make %-14s %s\n", $$1, $$2 }'
	@sed -n '/^$$/q; 2,$$ s/^# \{0,1\}//p' Makefile

setup: $(VENV)/.onnxexp-installed ## make the environment that the other targets use

demo: setup ## export real models, check them and write a report: the first thing to try
	@$(BIN)/python -m examples.demo $(ARGS)

# The core without torch.export, in half a minute. One process, since a second one would import torch for as long as it would help.
# Without pytest's capture of logs, which takes a tenth of the time.
test-quick: setup ## the tests of the core without torch.export: half a minute
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:logging -p tests.without_torch_export $(SLOW:%=--ignore-glob='tests/core/test_%.py') \
	  $(SLOW_TESTS:%=--deselect=tests/core/test_%) $(ARGS) tests/core

# The checks of the sources, in tests/repository, are a part of `make lint`.
test: setup ## the tests: six minutes on two cores
	$(PYTEST) --ignore=tests/repository $(ARGS)

test-full: setup ## all tests, also the slow ones, in random order: about an hour
	$(PYTEST) --ignore=tests/repository -m "full or not full" -p tests.order --order random $(ARGS)

# Packages that extend torch.onnx, beside the environment and not in it: their pins do not fit this torch, what is tested does.
third-parties: setup ## packages that extend torch.onnx, in an environment beside this one
	test -x $(VENV)/third-parties/bin/python || $(BIN)/python -m venv $(VENV)/third-parties
	$(BIN)/python -c 'import site; print(site.getsitepackages()[0])' > "$$($(VENV)/third-parties/bin/python -c 'import site; print(site.getsitepackages()[0])')/project.pth"
	$(VENV)/third-parties/bin/python -m pip install --quiet --no-deps -r tests/torch_onnx/third-parties.txt
	OMP_NUM_THREADS=1 PYTHONPATH=core:plugins/aten:plugins/autograd:plugins/torchscript:plugins/torch_onnx $(VENV)/third-parties/bin/python -m pytest -p no:xdist tests/torch_onnx/test_third_parties.py tests/torch_onnx/test_third_party_functions.py $(ARGS)

# Libraries' own export functions, and models that libraries ship, through onnxexp and torch.onnx (hours; resumes): see tests/libraries.
libraries: torchvision ## libraries' own export functions and models, beside torch.onnx: hours; resumes
	$(BIN)/python -m tests.libraries --environment $(VENV)/libraries --out $(VENV)/libraries.jsonl --page $(ARGS)

# torchvision beside the environment, built from Debian's source package (two minutes), and the tests that need it.
torchvision: setup ## build torchvision, and run the tests that need it
	$(BIN)/python -m tests.torchvision.build_torchvision $(VENV)/torchvision
	$(PYTEST) -m "full or not full" $(ARGS) tests/torchvision

# Every tested architecture of transformers, beside torch.onnx: hours on two cores; a second run goes on where the first one ended.
transformers: setup ## every architecture of transformers, beside torch.onnx: hours; resumes
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.transformers.table $(ARGS)

# The models of the tests with four opsets and both frontends; a second run goes on where the first one ended.
sweep: setup ## the models of the tests at four opsets through both frontends; resumes
	$(BIN)/python -m tests.sweep.model_zoo > models-zoo.toml
	$(BIN)/onnxexp sweep models-zoo.toml -o sweep-results --workers $(JOBS) --html sweep-results.html $(ARGS)

# The results of the models with and without ONNX Runtime's optimizations.
optimizations: setup ## the models with and without ONNX Runtime's optimizations
	$(PYTEST) -p tests.without_optimizations $(ARGS) tests/models tests/aten tests/ort tests/autograd tests/quantized

conformance: setup ## PyTorch's database of operators, beside torch.onnx: hours
	$(CONFORMANCE) --exporter export trace --opset 9 13 17 18 20 23 $(ARGS)
	$(CONFORMANCE) --exporter dynamic trace-dynamic --opset 20 $(ARGS)
	$(CONFORMANCE) --exporter dynamo script --opset 20 --every $(EVERY) $(ARGS)
	$(CONFORMANCE) --extremes --exporter trace --opset 9 20 $(ARGS)
	$(CONFORMANCE) --quantized --exporter export trace --opset 10 12 17 21 25 $(ARGS)

# PyTorch's own ONNX tests, from Debian's source package, with onnxexp and with torch.onnx.
peer-suite: setup ## PyTorch's own ONNX tests, with onnxexp and with torch.onnx
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.peer_suite --jobs $(JOBS) $(ARGS)

# Other versions of Python, torch, onnx and the rest: half an hour and 8 GB for each row; a second run goes on where the first one ended.
compat: setup ## other versions of Python, torch and onnx: half an hour and 8 GB each; resumes
	$(BIN)/python -m tests.compat --jobs $(JOBS) $(ARGS)

# Faults caused on purpose: writers of one path, kills, full disks, damaged files, hostile packs, threads.
faults: setup ## faults caused on purpose: kills, full disks, hostile files and packs
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults --out faults.json $(ARGS)

fuzz: setup ## random programs, beside eager PyTorch
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --minutes $(MINUTES) --seed $(SEED) --jobs $(JOBS) $(ARGS)

lint: setup ## style, types and the checks of the sources
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -m "full or not full" tests/repository

docs: setup ## build the documentation in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "The site: build/site/index.html"

format: setup ## format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## export time, memory and latency, beside torch.onnx
	$(BIN)/python -m benchmarks $(ARGS)

# Wheels and sdists of the last commit in dist/: built, checked by twine, installed from that folder.
dist: setup ## wheels and sdists of the last commit in dist/, checked
	$(BIN)/python -m tests.packaging.release dist

clean: ## remove what the other targets wrote, but for the environment
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis bench-results conformance.jsonl faults.json fuzz.jsonl models-zoo.toml sweep-results*
	find core plugins tests examples -name __pycache__ -o -name '*.egg-info' | xargs rm -rf

$(VENV)/.torch-installed:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "onnxexp needs Python 3.10 or newer, $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=...")'
	@echo "Making the environment $(VENV): a few minutes, once."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install "$(TORCH)"
	@touch $@

# One pip call for all: the core and its plugins need each other, and none of them comes from an index.
$(VENV)/.onnxexp-installed: $(VENV)/.torch-installed pyproject.toml $(PLUGINS:%=%/pyproject.toml)
	$(PIP) install --editable ".[all,dev]" $(PLUGINS:%=--editable %)
	@touch $@
