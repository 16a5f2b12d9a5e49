# Everything runs from a clean clone with nothing but make and Python 3.11 or newer.
# ARGS goes to the command itself:  make check ARGS="--examples 50 --seed 7"

PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready

.PHONY: check test lint bench campaign lossless mutation matrix faults gpu-check setup clean

check: $(READY)
	$(VENV)/bin/draftproof check $(ARGS)

test: $(READY)
	$(VENV)/bin/python -m pytest -n auto $(ARGS)

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(READY)
	$(VENV)/bin/draftproof bench $(ARGS)

# Every night: the law of sampled output, measured at full length (docs/lossless.md), in some minutes.
lossless: $(READY)
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m draftproof.fuzz.lossless --write docs/lossless.md $(ARGS)

# By hand, in half an hour or so: which mutants of worker, model and engine nothing sees (writes
# docs/mutation.md).
mutation: $(READY)
	$(VENV)/bin/python -m draftproof.fuzz.mutation --save docs $(ARGS)

# Every night: a campaign that must hit every cell of the matrix (docs/matrix.md), else exit code 6.
matrix: $(READY)
	$(VENV)/bin/draftproof fuzz --cases 1024 --corpus build/matrix --goal matrix --matrix docs/matrix.md $(ARGS)

# By hand, in half an hour or so: every fault on one to four ranks, and what held (docs/faults.md).
faults: $(READY)
	$(VENV)/bin/draftproof faults --steps 200000 --write docs/faults.md $(ARGS)

# Every night: every schedule of a larger scope, then a long campaign, of another seed each time:
#   make campaign ARGS="--seed 7"     Half an hour and more; docs/campaigns.md has its tables.
campaign: $(READY)
	$(VENV)/bin/draftproof explore --subsets --expect 196918 129288 76831
	$(VENV)/bin/draftproof explore --subsets --symmetry --expect 132153 55578 9419
	$(VENV)/bin/draftproof fuzz --cases 26624 --workers 2 --corpus build/campaign --report docs/campaign.json $(ARGS)

# On a machine with a GPU, with its own Python and its own torch (docs/gpu.md).
gpu-check:
	PYTHONPATH=$(CURDIR)/.typing$${PYTHONPATH:+:$$PYTHONPATH} $(PYTHON) -m draftproof.fuzz.gpu_check $(ARGS)

setup: $(READY)

# Set up once, and again whenever pyproject.toml changes.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "draftproof needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --editable '.[dev,gpu,triton,guided]'
	touch $@

clean:
	rm -rf $(VENV) build draftproof.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
