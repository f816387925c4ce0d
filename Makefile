# The front door. `make demo` shows the product, `make test` proves it; both install what they need.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
export PYTHONPATH := libs:operator:agent_image:gateway_image:sandbox_image:cli:tools
CLUSTER := python3 -m cluster
PYTEST := $(PYTHON) -m pytest
BUILT := .local

.PHONY: help setup demo dev test check unit integration conformance e2e chaos bench cluster cluster-down images generate lock chart-lint

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

setup: ## Install what the machine lacks: uv, the virtual environment, PostgreSQL's programs
	@tools/setup.sh

demo: setup images ## Cluster, images, chart, one conversation, printed as it streams
	@eval "$$($(CLUSTER) env)"; $(PYTHON) -m demo

dev: setup ## The same processes without a cluster, and a conversation in this terminal
	@$(PYTHON) -m local_stack

test: check unit integration e2e ## Everything

check: setup ## Lint, types, import rules, generated files
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	$(PYTHON) tools/generate.py --check
	$(PYTHON) tools/chart_readme.py --check

unit: setup ## Tests that need nothing but Python
	$(PYTEST) tests/unit

integration: setup conformance ## Real NATS, real PostgreSQL, real processes
	$(PYTEST) tests/integration --ignore tests/integration/operator

conformance: setup ## An independent suite against sandboxd
	tools/conformance.sh

e2e: setup images ## The chart on the local cluster
	@eval "$$($(CLUSTER) env)"; $(PYTEST) tests/e2e tests/integration/operator tests/chaos

chaos: setup images ## Kill everything in turn, 20 times each, while people talk (15 minutes); CHAOS_SEED=n repeats a run
	@eval "$$($(CLUSTER) env)"; CUT_SECONDS=60 $(PYTEST) tests/integration/operator/test_cut_off.py -k away
	@eval "$$($(CLUSTER) env)"; CHAOS_KILLS=$${CHAOS_KILLS:-20} CHAOS_SECONDS=$${CHAOS_SECONDS:-690} $(PYTEST) tests/chaos

bench: setup images ## Measure; JSON lines to bench/results, table to README
	@eval "$$($(CLUSTER) env)"; $(PYTHON) -m bench

cluster: ## Start the local cluster (kind)
	@$(CLUSTER) up

cluster-down: ## Remove the local cluster and everything it started
	@$(CLUSTER) down

images: cluster ## Build the images and load them into the cluster
	@$(CLUSTER) images

generate: setup ## Write CRDs, RBAC, values schema, install manifest from their sources
	$(PYTHON) tools/generate.py

lock: ## Resolve dependencies anew
	tools/lock.sh

chart-lint: setup ## kubeconform, kube-score and kube-linter over the rendered chart
	tools/chart_lint.sh
