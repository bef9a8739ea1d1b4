# kscheduler: everything a developer types. Each target makes its own virtual environment first.
.DEFAULT_GOAL := help
.SUFFIXES:
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
RUN    := $(VENV)/.run-ready
DEV    := $(VENV)/.dev-ready
DEPLOY := $(VENV)/.deploy-ready
DOCS   := $(VENV)/.docs-ready
NODES  ?= 100
PODS   ?= 1000
ROUNDS ?= 10
SEED   ?= 0
DECISIONS := tests/specification/decisions/test_decisions_equal_specification.py
COUNT  ?= 300
JOBS   ?= 1
WORKERS ?= 2
BASE   ?=
# Folders whose tests call functions and classes: no service, no commands, no documents.
UNITS  := $(addprefix tests/,aio api assembly bounded client config devices election explain framework informers \
	plugins scheduling server state telemetry testing)
ARCHITECTURES ?= amd64,arm64
BUILDER ?=
# What is built and looked at: images and releases, pages in Chromium, kubectl's sessions.
SHOWN := $(addprefix tests/e2e/,image status_page transcripts test_plugin_package.py test_release.py)
MACHINES := $(addprefix tests/scheduling/,never_stuck/test_never_stuck.py never_stuck/test_cases.py \
	eviction/test_evictions_never_stuck.py drift/test_drift.py)

# In CI three suites share two cores, with real servers: a test that fails is tried once more, and is told as RERUN at the
# end, since it is a race to mend. Elsewhere a failure is a failure.
RERUNS := $(if $(KSCHEDULER_CI),--reruns 1 --rerun-show-tracebacks -raR)

# Tests start `kscheduler` hundreds of times; without bytecode, compiling it anew is half of each start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-fast test-changed test-all check check-calls docs ready check-deploy manifests dashboard-picture page-pictures fmt e2e e2e-embedded e2e-shown e2e-faults e2e-real controlplane e2e-versions follow bench bench-compare \
	bench-plots bench-churn bench-real bench-latency bench-scale bench-sizing bench-start bench-page bench-upstream soak lock image sbom release mutants fuzz \
	fuzz-specification fuzz-machines fuzz-properties fuzz-decisions \
	fuzz-decisions-first fuzz-decisions-second clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(RUN) ## Watch 1,000 pods being scheduled on an embedded cluster (NODES=, PODS=, KEEP=1 leaves it running)
	@$(BIN)/kscheduler demo --nodes $(NODES) --pods $(PODS) $(if $(KEEP),--keep)

# A file's tests stay in one process: they share what its fixtures made. In the order of the files, as xdist would put
# those with a single test last, which are state machines that take a minute each.
PYTEST := $(BIN)/pytest $(RERUNS) --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(DEV) ## Run the tests but the slow ones: seven minutes on two cores (WORKERS=: in how many processes)
	$(PYTEST) -m 'not slow'

test-fast: $(DEV) ## Run the unit tests, which start no processes and draw nothing at random: two minutes
	$(PYTEST) -m 'not slow and not hypothesis' $(UNITS)

test-changed: $(DEV) ## Run the tests that belong to what differs from main (BASE=: from another commit)
	$(BIN)/python -m tests.picking --base '$(BASE)' --run --numprocesses $(WORKERS) --dist loadfile -m 'not slow'

test-all: $(DEV) $(DOCS) ## Run all tests, with as many random cases as in CI: a quarter of an hour
	KSCHEDULER_CI=1 $(PYTEST)

check: $(DEV) $(DOCS) ## Format, lint, types, layers, calls per pod: what CI asks of every change
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory check-calls

check-calls: $(DEV) ## Count what one more pod calls, against benchmarks/calls.json (a part of check; RAISE='why' raises limits)
	$(BIN)/python -m benchmarks.calls $(if $(RAISE),--raise '$(RAISE)')

docs: $(DOCS) ## Build the site in build/docs: the pages, and the API reference of docstrings; links are checked, warnings are errors
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky --quiet --doctree-dir build/doctrees docs build/docs
	@echo build/docs/index.html

ready: $(DEPLOY) $(DOCS) ## Install all that the other targets need of Python

check-deploy: $(DEPLOY) ## Chart, manifests, alerts, dashboard, Dockerfile: linted, rendered, validated, run (builds Helm once)
	$(BIN)/pytest $(RERUNS) tests/deploy/chart

manifests: $(DEV) ## Write anew what is made from the chart: deploy/kscheduler.yaml, Kustomize's base, README, schema, dashboard
	$(BIN)/python -m tests.deploy.manifests

dashboard-picture: $(DEPLOY) ## Draw docs/dashboard.png: the dashboard's panels, with data of a real Prometheus (3 min)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[plots]'
	$(BIN)/python -m tests.deploy.picture

page-pictures: $(DEV) ## Draw docs/status-page: the status page of a running scheduler, by the system's Chromium
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[plots]'
	$(BIN)/python -m tests.e2e.status_page.pictures

fmt: $(DEV) ## Format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

e2e: $(DEV) ## One end-to-end suite on the embedded API server and on the real one (builds it once: Go >= 1.26, ~5 min)
	$(BIN)/pytest tests/e2e

# The parts of it, which go side by side: they wait more than they work.
e2e-embedded: $(DEV)
	$(BIN)/pytest $(RERUNS) tests/e2e --server embedded --ignore tests/e2e/faults $(addprefix --ignore ,$(SHOWN))

e2e-shown: $(DEV)
	$(BIN)/pytest $(RERUNS) $(SHOWN) --server embedded

e2e-faults: $(DEV)
	$(BIN)/pytest $(RERUNS) tests/e2e/faults --server embedded

e2e-real: $(DEV)
	$(BIN)/pytest $(RERUNS) tests/e2e --server real --on-it-only

controlplane: $(DEV)
	$(BIN)/python -m tests.controlplane.binaries

e2e-versions: $(DEV) ## The suite on real API servers of each release in docs/compatibility.md (VERSIONS='1.37.2'; 10 min to build each)
	$(BIN)/python -m tests.controlplane.releases.every_release $(VERSIONS)

follow: $(DEV) ## What a release of Kubernetes has that is not known here (VERSION=1.38.0; REPORT=FILE): docs/following-kubernetes.md
	$(BIN)/python -m tests.controlplane.follow $(VERSION) $(if $(REPORT),--report $(REPORT))

bench: $(DEV) ## Measure in process: scheduler_perf's scenarios, then counters, decoding, exposition, hopeless pods
	$(BIN)/kscheduler bench
	$(BIN)/python benchmarks/counters_memory.py
	$(BIN)/python benchmarks/decode.py
	$(BIN)/python benchmarks/exposition.py
	$(BIN)/python benchmarks/preemption.py
	$(BIN)/python benchmarks/hopeless.py --pods 20000

bench-compare: $(DEV) ## Play the scenarios three times and tell what got slower than benchmarks/baseline.json
	$(BIN)/python -m benchmarks.compare

bench-plots: $(DEV) ## Draw what a decision costs by nodes and by running pods (ten minutes, 2 GiB; RESUME=1 goes on)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[plots]'
	$(BIN)/python -m benchmarks.plots $(if $(RESUME),--resume)

bench-scale: $(DEV) ## Fill one process with 100,000 nodes and 1,000,000 pods; then the event loop's lag at full speed
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.real.loop_lag

bench-churn: $(DEV) ## A week of an autoscaled cluster in minutes: memory, tables, loop lag, CPU (MINUTES=60: in real time)
	$(BIN)/python -m benchmarks.churn.week --census $(if $(MINUTES),--minutes $(MINUTES))

bench-real: $(DEV) ## Measure on a real API server, beside kube-scheduler and a client that decides nothing (15 min)
	$(BIN)/python -m benchmarks.real.throughput --markdown

bench-upstream: $(DEV) ## Play scheduler_perf's own workloads on a real API server beside kube-scheduler (hours; SELECTION=readme: 15 min; ONLY=SchedulingBasic/500Nodes: a minute)
	$(BIN)/python -m benchmarks.upstream --json build/bench-upstream$(if $(SELECTION),-$(SELECTION)).json $(if $(SELECTION),--selection '$(SELECTION)') $(if $(ONLY),--only $(ONLY)) --markdown

bench-latency: $(DEV) ## Measure from a pod's creation to its binding on a real API server, beside kube-scheduler
	$(BIN)/python -m benchmarks.real.latency

bench-start: $(DEV) ## Measure what a start costs: CPU until the first probe is answered (BESIDE=another checkout, PYTHON_OF=interpreter)
	$(BIN)/python -m benchmarks.start $(if $(BESIDE),--beside '$(BESIDE)') $(if $(PYTHON_OF),--python '$(PYTHON_OF)')

bench-sizing: $(DEV) ## Measure CPU and memory of two replicas by nodes and pods: the table "Sizing" of docs/operations.md (6 min)
	$(BIN)/python -m benchmarks.sizing

bench-page: $(DEV) ## Measure the status page in Chromium: first view, CPU and loop lag under ten browsers (5,000 nodes, 50,000 pods)
	$(BIN)/python -m benchmarks.page

lock: $(DEV) ## Renew the image's lock files: newest releases that are a week old, by hash, for amd64 and arm64
	$(BIN)/python -m deploy.image.lock

image: $(DEV) ## Build the image without an engine, as an OCI layout in build/image (root, mmdebstrap); sizes and digests
	$(BIN)/python -m deploy.image.build --output build/image

sbom: image ## Write the image's bill of materials, CycloneDX in build/image/bom.cdx.json (ROOT=an unpacked image: of that)
	@$(if $(ROOT),$(BIN)/python -m deploy.image.sbom '$(ROOT)' --output build/image/bom.cdx.json,:)
	@echo build/image/bom.cdx.json

release: $(DEV) ## Make build/release: wheel, sdist, chart, image for amd64 and arm64, bills of materials, checksums, provenance (root, mmdebstrap; ARCHITECTURES=amd64: of one)
	$(BIN)/python -m deploy.release.build --architectures '$(ARCHITECTURES)' --builder '$(BUILDER)'

soak: $(DEV) ## 50 fail-overs of each kind on a real API server, kscheduler beside kube-scheduler, and rolling updates (half an hour; ROUNDS=)
	$(BIN)/python -m benchmarks.real.fail_over --rounds $(if $(filter command line environment,$(origin ROUNDS)),$(ROUNDS),50)

mutants: $(DEV) ## Draw 300 small changes of the code and run the tests that should notice; 80 % must die (SEED=, COUNT=, ONLY=path-glob, JOBS=)
	$(BIN)/python -m tests.mutants --seed $(SEED) --count $(COUNT) --jobs $(JOBS) $(if $(ONLY),--only '$(ONLY)')

fuzz: $(DEV) ## Run the property tests for long, on two cores: 1,000,000 decisions, 100,000 cases, and machines
	$(MAKE) --jobs=2 --output-sync=target fuzz-specification fuzz-machines fuzz-properties fuzz-decisions-first fuzz-decisions-second

fuzz-specification: $(DEV)
	KSCHEDULER_FUZZ=1 $(BIN)/pytest tests/specification tests/explain/suggestions tests/telemetry/logs tests/service/test_terms.py --ignore $(DECISIONS)

fuzz-decisions: $(DEV) ## Compare 1,000,000 decisions with the specification, on two cores: about 15 minutes (SEED=)
	$(MAKE) --jobs=2 --output-sync=target fuzz-decisions-first fuzz-decisions-second

fuzz-decisions-first fuzz-decisions-second: fuzz-decisions-%: $(DEV)
	KSCHEDULER_FUZZ=1 KSCHEDULER_FIRST_SEED=$(SEED) $(BIN)/pytest $(DECISIONS) -k $*-half

fuzz-machines: $(DEV)
	for round in $$(seq $(ROUNDS)); do \
		KSCHEDULER_FUZZ=1 KSCHEDULER_EXAMPLES=2000 $(BIN)/pytest tests/state $(MACHINES) || exit 1; \
	done

# The other properties, in all folders.
fuzz-properties: $(DEV)
	KSCHEDULER_FUZZ=1 KSCHEDULER_EXAMPLES=1000 $(BIN)/pytest -m hypothesis \
		$(addprefix --ignore=,tests/specification tests/state $(MACHINES))

clean: ## Remove what was built
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# The interpreter is checked first: a wrong one fails later, and less clearly.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "kscheduler needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'

$(RUN): pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[simulation,uvloop]'
	@touch $@

$(DEV): pyproject.toml $(RUN)
	$(BIN)/pip install --quiet --disable-pip-version-check --group dev
	@touch $@

$(DEPLOY): pyproject.toml $(DEV)
	$(BIN)/pip install --quiet --disable-pip-version-check --group deploy
	@touch $@

$(DOCS): pyproject.toml $(RUN)
	$(BIN)/pip install --quiet --disable-pip-version-check --group docs
	@touch $@
