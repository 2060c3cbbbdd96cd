# What a person types. `make` alone lists the targets; cargo does the work.

# cargo as rustup installs it comes first: a distribution's own is often too old.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)
TARGET := $(or $(CARGO_TARGET_DIR),target)

# Of `make -j4` cargo shall see the number. It can't use make's own job slots, which only recursive makes inherit.
unexport MAKEFLAGS MFLAGS
jobs = $(patsubst -j%,%,$(filter -j%,$(MAKEFLAGS)))
run = $(if $(jobs),CARGO_BUILD_JOBS=$${CARGO_BUILD_JOBS:-$(jobs)})

# Integration tests that run the real RocksDB for a minute or more. All others are found by themselves.
SLOW_TESTS := trial experiment engagement blockstore ethrex reth_history
TESTS := $(notdir $(basename $(wildcard */*/tests/*.rs)) $(patsubst %/main.rs,%,$(wildcard */*/tests/*/main.rs)))
FAST_TESTS := $(sort $(filter-out $(SLOW_TESTS),$(TESTS)))
# Only the bench links RocksDB. All others can be tested before that is built.
BENCH_TESTS := $(notdir $(basename $(wildcard bench-image/bench/tests/*.rs)))
PROGRAMS := $(shell sed -n '/^\[\[bin\]\]$$/{n;s/^name = "\(.*\)"$$/\1/p;}' */*/Cargo.toml)
without_rocksdb := --lib $(patsubst %,--bin %,$(filter-out assay-bench,$(PROGRAMS))) $(patsubst %,--test %,$(filter-out $(BENCH_TESTS),$(FAST_TESTS)))
# Crates and features are the same everywhere, or cargo compiles what they depend on once more for each set of them.
everywhere := --locked --workspace --features assay-e2e/cluster,assay-bench/planted
cargo_test := cargo test $(everywhere)

SCRIPTS := .ci/run $(wildcard scripts/*.sh bench-image/*.sh bench-image/*/*.sh e2e/cluster/*.sh e2e/tests/operator/*.sh)

IMAGES := $(TARGET)/images
VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' Cargo.toml)
ROCKSDB_VERSION := $(shell sed -n '/^name = "librocksdb-sys"$$/{n;s/^version = ".*+\(.*\)"$$/\1/p;}' Cargo.lock)
CLUSTER := e2e/cluster/cluster.sh
# Only root makes namespaces. What it builds is kept in the cache of whoever calls.
CACHE := $(or $(ASSAY_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/assay)
as_root = $(if $(filter-out 0,$(shell id -u)),sudo env HOME=/root PATH="$$PATH" ASSAY_CACHE="$(CACHE)" ASSAY_CLUSTER_KUBERNETES="$(ASSAY_CLUSTER_KUBERNETES)")

# image NAME FOLDER PROGRAMS
image = IMAGE_ARGS='VERSION=$(VERSION) ROCKSDB_VERSION=$(ROCKSDB_VERSION)' scripts/image.sh \
    localhost/assay-$(1):$(VERSION) $(2)/Containerfile $(IMAGES)/assay-$(1).tar $(3)

# What is in an image, as CycloneDX. Fails where it has a file too many.
# sbom NAME PACKAGES
sbom = scripts/sbom.py $(IMAGES)/assay-$(1).tar $(2) >$(IMAGES)/assay-$(1).cdx.json

# Copies a program to bin: only what changed, and by renaming, since an experiment may be running the old one.
# put PROFILE PROGRAM
put = mkdir -p bin && { cmp -s $(TARGET)/$(1)/$(2) bin/$(2) || \
    { cp $(TARGET)/$(1)/$(2) bin/.$(2).$$$$ && mv bin/.$(2).$$$$ bin/$(2); }; }

# With bin in the PATH, `kubectl assay` is assay.
put_cli = $(call put,release,assay); ln -sf assay bin/kubectl-assay

# Not written out, so that `make -n` shows these lines and does not run them.
step := $(MAKE) --no-print-directory

# A machine that can't be a node, such as most containers, says so; all else is tested all the same. scripts/counted.py reads it.
# on_a_node TARGETS
on_a_node = if why=$$($(as_root) $(CLUSTER) possible 2>&1); then $(step) $(1); else echo "NOT RUN: $(1): $$why"; fi

# The order of prerequisites is the order of checks, the cheap ones first.
.NOTPARALLEL:
.PHONY: help setup tools bindings build bench operator quickstart test tests test-fast lint fmt-check scripts-check border-check clippy generate calibrate simulate simulate-bisection simulate-nights \
    campaign browser-test chart-test deny mutants clean images image-bench image-operator load-images cluster-up cluster-down cluster-status cluster-test operator-test \
    fake-nodes-test real-node-test test-faults images-test limits-test fleet-bench soak mornings nights-test slow-test runbooks-test upgrade-test test-oldest on-a-node

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

setup: ## Install what is missing and build RocksDB once. Other targets run it if they need it
	@$(run) scripts/setup.sh

tools: ## The same without RocksDB: enough to work on the operator and the CLI
	@$(run) scripts/setup.sh tools

# RocksDB's own headers are enough for what does not link it.
bindings:
	@$(run) scripts/setup.sh bindings

build: bench ## Build bin/assay (also as kubectl-assay) and bin/assay-bench
	$(run) cargo build --locked --release -p assay-cli
	@$(call put_cli)

bench: setup ## Build bin/assay-bench
	$(run) cargo build --locked --profile measured -p assay-bench
	@$(call put,measured,assay-bench)

operator: tools ## Build bin/assay-operator, bin/assay-agent and bin/assay
	$(run) cargo build --locked --release -p assay-cli -p assay-controller -p assay-agent
	@$(call put_cli)
	@$(call put,release,assay-operator)
	@$(call put,release,assay-agent)

quickstart: build ## Run examples/quickstart.yaml and print its verdict
	@# 0, 10 and 11 say which verdict was reached; anything else means that none was.
	@code=0; bin/assay run examples/quickstart.yaml --out results/quickstart || code=$$?; \
	again='for a fresh run: rm -r results/quickstart && make quickstart'; \
	case $$code in \
	0 | 10 | 11) echo "All records and reports are in results/quickstart; $$again" ;; \
	130) exit 130 ;; \
	*) echo "quickstart: no verdict; see the message above. If it is about an earlier run, $$again" >&2; exit $$code ;; \
	esac

# Programs and RocksDB take longest to build. They are built behind the tests that need none of them, and these wait a lot.
test: tools fmt-check scripts-check border-check bindings ## Run everything: lints, borders, all tests. With CI=true, what can't be run here fails
	@$(run) scripts/counted.py 'make test' scripts/behind.sh '$(step) operator bench' $(step) tests

tests: clippy
	$(run) cargo build $(everywhere) --quiet --examples
	$(run) $(cargo_test) --no-run --quiet $(without_rocksdb)
	$(run) $(cargo_test) $(without_rocksdb)
	@$(step) deny
	@$(step) browser-test
	@$(step) chart-test
	@$(call on_a_node,fake-nodes-test)
	@$(step) setup
	$(run) $(cargo_test) --no-run --quiet
	$(run) $(cargo_test) --bin assay-bench $(patsubst %,--test %,$(filter-out experiment,$(BENCH_TESTS)))
	@# What follows is about CPU time, so nothing is built behind it any more.
	@$(step) bench operator
	@$(call on_a_node,cluster-test real-node-test)
	$(run) $(cargo_test) --test experiment

test-fast: lint setup ## Run the tests without the long runs on the real RocksDB and without a cluster
	$(run) $(cargo_test) --no-run --quiet
	$(run) $(cargo_test) --lib --bins $(FAST_TESTS:%=--test %)

lint: tools fmt-check scripts-check border-check bindings clippy ## Check format, scripts and borders, and run clippy

fmt-check:
	cargo fmt --all --check

scripts-check:
	@scripts/setup.sh scripts
	@for script in $(SCRIPTS); do sh -n $$script || exit 1; done
	@shellcheck --severity=warning $(SCRIPTS)
	@scripts/english.py
	@scripts/counted-test.py
	@scripts/campaign/check.py

border-check: tools ## Check that crates depend only on what they may, and that modules form no cycle
	@scripts/setup.sh scripts
	@scripts/borders.sh

# A newer compiler brings new lints, which must not fail for those who only want to use Assay.
clippy: bindings
	@oldest=$$(sed -n 's/^rust-version = "\(.*\)"$$/\1/p' Cargo.toml); \
	case $$(cargo --version) in \
	"cargo $$oldest."*) deny='-D warnings' ;; \
	*) deny=; echo "clippy: warnings are errors only with Rust $$oldest; this is $$(cargo --version)" ;; \
	esac; \
	set -x; $(run) cargo clippy $(everywhere) --all-targets -- $$deny

generate: tools ## Rewrite all generated files: CRDs, JSON Schemas, goldens, tables
	$(run) cargo run --locked --quiet -p assay-protocol --example schemas -- schemas
	ASSAY_UPDATE_GOLDEN=1 $(run) cargo test --locked --quiet --no-fail-fast -p assay-core -p assay-cli --lib --test import --test judge --test cli
	@# A chart holds all of its files; it can't read those beside it.
	cp crds/*.yaml charts/assay/files/crds/
	scripts/chart-values.sh
	scripts/campaign/page.py

browser-test: ## Check report pages in a headless browser; installs chromium if needed
	@$(run) scripts/setup.sh browser
	$(run) scripts/browser-test.sh

chart-test: ## Check the Helm chart without a cluster; builds Helm if needed
	@scripts/setup.sh chart
	@scripts/chart-test.sh

calibrate: tools ## Simulate how often the judge errs and write it to docs/statistics.md (up to an hour, resumes if interrupted); ROWS="null gain" for some
	$(run) cargo run --locked --release -p assay-core --example calibrate -- $(if $(ROWS),$(ROWS),--write)

simulate: tools ## Look for a world in which the operator does not hold: SEEDS=10000 of them (resumes if interrupted), or SEED=7 with all that happens there; BUG=NoPrecondition plants one
	$(run) cargo build --locked --quiet --release -p assay-controller --example simulate
	@$(TARGET)/release/examples/simulate $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),1000)) $(if $(BUG),--bug $(BUG))

simulate-bisection: tools ## Simulate how often a bisection names the culprit and write it to docs/statistics.md (a minute)
	$(run) cargo run --locked --release -p assay-core --example bisection_table -- --write

simulate-nights: tools ## Simulate how often sweeps suspect what is not there, and how soon what is, and write it to docs/statistics.md (up to an hour, resumes if interrupted)
	$(run) cargo run --locked --release -p assay-core --example simulate_nights -- --write

# The bench that plants effects has a profile of its own, so that it never lies where users' benches do.
campaign: build ## Measure on this machine how often verdicts err and write it to docs/evidence.md (hours, resumes if interrupted); COUNT=3 for some
	$(run) cargo build --locked --profile planted -p assay-bench --features assay-bench/planted
	@scripts/campaign/run.py $(if $(COUNT),--count $(COUNT)) $(TARGET)/planted/assay-bench

mornings: images ## Measure twenty real nights with a planted regression on a real node, until its culprit is named and accepted (two hours, resumes if interrupted)
	@scripts/setup.sh cluster
	@scripts/setup.sh chart
	$(run) cargo build --locked --profile planted -p assay-bench --features assay-bench/planted
	@$(run) e2e/mornings/mornings.sh

images: image-bench image-operator ## Write container images and their contents to target/images, for example for docker load

image-bench: bench
	@scripts/setup.sh images
	@scripts/sbom-test.py
	@$(call image,bench,bench-image,bin/assay-bench)
	@$(call sbom,bench,assay-bench)

# With the agent of nodes, and with the CLI, for jobs in a cluster that run an experiment and wait for its verdict.
image-operator: operator
	@scripts/setup.sh images
	@$(call image,operator,operator,bin/assay-operator bin/assay-agent bin/assay)
	@$(call sbom,operator,assay-controller assay-agent assay-cli)

load-images: images ## Load these images into the cluster of make cluster-up
	$(as_root) $(CLUSTER) load $(IMAGES)/*.tar

cluster-up: ## Start a real Kubernetes on this machine, as root
	@scripts/setup.sh cluster
	@$(as_root) $(CLUSTER) up

cluster-down: ## Stop it and remove everything except the programs in the cache
	@$(as_root) $(CLUSTER) down

cluster-status: ## Show what is running
	@$(as_root) $(CLUSTER) status

cluster-test: images ## Test the cluster itself; starts and stops one
	@scripts/setup.sh cluster
	@$(as_root) e2e/cluster/test.sh $(IMAGES)/assay-bench.tar

operator-test: images ## Test the operator on that cluster, every fault once; starts and stops one if none is running
	@scripts/setup.sh cluster
	@$(run) e2e/tests/operator/test.sh

# The two parts of operator-test.
fake-nodes-test: image-operator
	@scripts/setup.sh cluster
	@$(run) e2e/tests/operator/test.sh --fake-nodes

real-node-test: images
	@scripts/setup.sh cluster
	@$(run) e2e/tests/operator/test.sh --real-node

test-faults: images ## Run long soaks: operator kills, a faulty API server; ASSAY_ROUNDS=N, by default 20
	@scripts/setup.sh cluster
	@$(run) ASSAY_ROUNDS=$${ASSAY_ROUNDS:-20} e2e/tests/operator/test.sh kills unkind_api

images-test: images ## Test where the images of sweeps come from, with a real registry; builds that once. CI leaves it out
	@scripts/setup.sh cluster
	@$(run) e2e/tests/operator/test.sh --images

nights-test: images ## Run real nights of a sweep and a bisection on the real node; 45 minutes at most. CI leaves it out
	@scripts/setup.sh cluster
	@$(run) e2e/tests/operator/test.sh ::long::

slow-test: image-operator ## Run the tests on fake nodes that take longest and rarely fail; CI leaves them out
	@scripts/setup.sh cluster
	@$(run) e2e/tests/operator/test.sh --slow

limits-test: image-operator ## Measure what the operator takes at its worst: memory, API calls and how long others wait; CI leaves it out
	@scripts/setup.sh cluster
	@$(run) e2e/tests/operator/test.sh --limits

# As NODES/EXPERIMENTS/TRIALS/SECONDS.
NODES ?= 200
EXPERIMENTS ?= 1
TRIALS ?= 2000
TAKES ?= 5

fleet-bench: operator ## Measure how busy the operator keeps NODES fake nodes, next to a control; EXPERIMENTS, TRIALS of all, seconds that each TAKES. CI leaves it out
	@scripts/setup.sh cluster
	@scripts/setup.sh chart
	@$(run) e2e/tests/operator/test.sh --fleet $(NODES)/$(EXPERIMENTS)/$(TRIALS)/$(TAKES)

soak: operator ## Run 500 fake nodes while leaders are killed, nodes are lost and the API server is; CI leaves it out
	@scripts/setup.sh cluster
	@scripts/setup.sh chart
	@$(run) e2e/tests/operator/test.sh --soak

runbooks-test: images ## Try what docs/operations.md says for bad days, on a cluster; CI leaves it out
	@scripts/setup.sh cluster
	@$(run) e2e/tests/operator/test.sh runbooks::

# The last build before this one that others have.
UPGRADE_FROM ?= 78714ca

upgrade-test: image-operator ## Upgrade running experiments from the build of UPGRADE_FROM, and go back; builds that once. CI leaves it out
	@scripts/setup.sh cluster
	@$(run) e2e/tests/operator/test.sh --upgrade $(UPGRADE_FROM)

# A cluster beside that of `make cluster-up`, which may stay up.
test-oldest: images ## Test the operator on the oldest Kubernetes that it supports; builds that once
	@scripts/setup.sh cluster
	@$(run) ASSAY_CLUSTER_KUBERNETES=oldest scripts/counted.py 'make test-oldest' $(step) on-a-node

on-a-node:
	@$(call on_a_node,operator-test)

deny: tools ## Check licences, origins and known vulnerabilities of dependencies; builds cargo-deny if needed
	@$(run) scripts/deny.sh

mutants: setup ## Change one place of the code at a time and see whether a test notices (hours, resumes if interrupted); GROUPS="core", SEED=7
	@$(run) scripts/mutants.py "$$(scripts/cargo-mutants.sh)" $(if $(SEED),--seed $(SEED)) $(GROUPS)

clean: ## Remove build outputs; keeps results and the RocksDB in the cache
	cargo clean
	rm -rf bin
