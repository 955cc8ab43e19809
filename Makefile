# The two main commands are `make demo` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help

INCIDENT ?= i1
ONCE ?=
ONLY ?=
LISTEN ?= 127.0.0.1:8080
SECONDS ?= 60
TARGETS ?=
IMAGE ?=
ARCH ?=
DEV ?=

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 18

# Builds only these two programs, but with the features of the whole workspace, so that `make test` reuses the dependencies.
# Whoever runs them neither edits nor debugs them: without both, the first build is a sixth shorter.
build-lab = export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=false && \
  printf '\033[1m▸ building\033[0m (the first time takes under four minutes on two cores)\n' && \
  cargo build --workspace --locked --bin parallax --bin parallax-lab

# Before building: check whether user-mode Linux boots here, and otherwise what can run on this machine's kernel.
.PHONY: demo
demo: cargo ## Boot a small cluster, break it and watch Parallax name the cause (INCIDENT=i7, ONCE=1, LISTEN=…)
	@run=$$(tests/check-kernel $(INCIDENT) $(if $(filter file,$(origin INCIDENT)),--or f3)) && \
	  $(build-lab) && \
	  exec target/debug/parallax-lab run $$run --listen $(LISTEN) $(if $(ONCE),--once)

.PHONY: lab
lab: cargo ## Run every incident of the lab, three at a time; writes target/lab/report.html (ONLY="i1 i7" for some)
	@run=$$(tests/check-kernel --all $(ONLY)) && \
	  $(build-lab) && \
	  mkdir -p target/lab && \
	  exec target/debug/parallax-lab run $$run --jobs 3 --report target/lab/report.html $(foreach id,$(ONLY),--only $(id))

.PHONY: lab-nightly
lab-nightly: QUIET := quiet healthy i8-2-short
lab-nightly: cargo ## Run the quiet incidents for ten minutes each; no alert of a real Prometheus may fire
	@tests/install-tools alerts
	@run=$$(tests/check-kernel --all $(QUIET)) && \
	  $(build-lab) && \
	  mkdir -p target/lab && \
	  exec target/debug/parallax-lab run $$run --jobs 2 --alerts $(foreach id,$(QUIET),--only $(id)) \
	    --quiet-seconds 600 --report target/lab/nightly.html

.PHONY: test
test: ## Run all checks: format, lints, unit, integration and lab tests, with the time of each
	@tests/run-suites

.PHONY: faults
faults: cargo ## Run the tests of docs/reference/reliability.md: kills, floods, full disks, wrong clocks
	@tests/install-tools faults && tests/run-faults

.PHONY: check
check: ## Check format and lints only
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets --features parallax-fuzz/targets --locked -- -D warnings

.PHONY: fuzz-build
fuzz-build: cargo ## Build the fuzz targets with libFuzzer
	@fuzz/run build

.PHONY: fuzz
fuzz: cargo ## Run the fuzz targets, two at a time (SECONDS=… for each, TARGETS="…" for some of them)
	@fuzz/run $(SECONDS) $(TARGETS)

.PHONY: image
image: cargo ## Build a container image from scratch with the static binary (IMAGE=registry/name:tag, ARCH=arm64|all; about 10 minutes each)
	@tests/install-tools image
	@STORAGE_DRIVER=$${STORAGE_DRIVER:-vfs} deploy/build-image $(if $(IMAGE),--tag $(IMAGE)) $(if $(ARCH),--arch $(ARCH))

.PHONY: reproducible
reproducible: cargo ## Build the image of the current commit in two folders and compare every byte (ARCH=amd64|arm64; two release builds)
	@STORAGE_DRIVER=$${STORAGE_DRIVER:-vfs} tests/reproducible $(ARCH)

.PHONY: image-arm64
image-arm64: cargo ## Build the binary for arm64 and run it under QEMU: version, aggregator, HTTP and HTTPS checks (a release build)
	@tests/image-arm64

.PHONY: release-artefacts
release-artefacts: cargo ## Make every file of a release in target/release-artefacts (two release builds; PARALLAX_REGISTRY names the registry)
	@tests/install-tools image
	@STORAGE_DRIVER=$${STORAGE_DRIVER:-vfs} deploy/release/artefacts

.PHONY: release-dry-run
release-dry-run: cargo ## Make and verify a release, run its arm64 binary, publish to a registry on this machine (DEV=1: debug binary, a minute)
	@PARALLAX_STRICT=1 tests/release $(if $(DEV),--dev)
	@$(if $(DEV),echo 'left out: tests/image-arm64 (a release build)',tests/image-arm64)

.PHONY: bench
bench: cargo ## Measure the cost of a probe against blackbox_exporter; writes docs/reference/performance.md (about 16 minutes)
	@tests/install-tools bench
	@cargo build --release --locked -p parallax-bench
	@target/release/parallax-bench run --document docs/reference/performance.md

.PHONY: cargo
cargo:
	@command -v cargo >/dev/null || { echo 'cargo is missing: install a Rust toolchain (1.95 or newer), for example with rustup' >&2; exit 3; }

.PHONY: bench-diagnosis
bench-diagnosis: cargo ## Measure the diagnosis at 5 000 nodes and 2 000 targets: rows per second, tick, memory, plan changes
	@cargo bench --locked -p parallax-diagnosis --bench tick

.PHONY: soak
soak: cargo ## Diagnose 90 minutes of 1 000 vantages and 200 targets with replaced Pods and faults; fails if memory grows (about 2 minutes)
	@cargo bench --locked -p parallax-diagnosis --bench soak

.PHONY: soak-http
soak-http: cargo ## Run an aggregator with a store and the reports of 1 000 simulated probers over HTTP (an hour, after a release build; MINUTES=…)
	@cargo build --release --locked --workspace --bin parallax --bin parallax-bench
	@target/release/parallax-bench soak $(if $(MINUTES),--minutes $(MINUTES))

.PHONY: diagnosis-report
diagnosis-report: cargo ## Diagnose every generated recording; writes docs/reference/diagnosis.md (about 30 minutes)
	@cargo --config 'profile.dev.package.parallax-diagnosis.opt-level=3' run --quiet --locked -p parallax-lab --bin parallax-corpus -- report --out docs/reference/diagnosis.md

.PHONY: dashboards
dashboards: cargo ## Regenerate alert rules, dashboards and docs/reference/metrics.md from code
	@PARALLAX_BLESS=1 cargo test --quiet --workspace --locked --lib the_reference_page
	@PARALLAX_BLESS=1 cargo test --quiet --workspace --locked --test generated what_is_committed

.PHONY: manifests
manifests: cargo ## Regenerate the CRDs from code, and deploy/install.yaml, overlays and components from the chart
	@tests/install-tools helm
	@PARALLAX_BLESS=1 cargo test --quiet --workspace --locked --lib the_committed_definitions
	@PARALLAX_BLESS=1 cargo test --quiet --workspace --locked --test cli chart::files
	@PARALLAX_BLESS=1 cargo test --quiet --workspace --locked --test cli -- chart::committed chart::differences

.PHONY: deny
deny: ## Check licences, bans and sources of all dependencies
	@tests/install-tools deny
	@target/tools/bin/cargo-deny check bans licenses sources

.PHONY: advisories
advisories: ## Check all dependencies against the RustSec database, which it downloads
	@tests/install-tools deny
	@target/tools/bin/cargo-deny check advisories
