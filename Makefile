# `make help` says what there is to make.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

# Where rustup puts cargo; a shell that was open before does not know it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

TARGET := $(or $(CARGO_TARGET_DIR),target)
WANSAN := $(TARGET)/release/wansan
# Asked when a recipe runs: what is missing may have been installed just before.
EBPF = $$(setup/ebpf)
DEMO_PLAN := plans/papers/p2-command-window.toml
PAGE := web/dist/report.html
PACKAGES := web/node_modules/.package-lock.json
# Runs on any Linux of this processor, whatever its C library.
STATIC_TARGET := $(shell uname -m)-unknown-linux-musl
STATIC := $(TARGET)/$(STATIC_TARGET)/release/wansan
# With the folders, whose times change when a file is taken away.
PAGE_SOURCES := $(shell find web/src web/test) \
	web/build.mjs web/sources.mjs web/package.json web/tsconfig.json

.PHONY: help setup build deb static image web demo test test-all test-packages test-papers test-consistency test-oracle test-faults test-kernels conformance fuzz check bench profile clean

help:
	@echo 'make demo    build what it takes, quickly, then run $(DEMO_PLAN)'
	@echo 'make test    the whole test suite; no root needed'
	@echo 'make test-all     every test there is, these as well; what a release needs'
	@echo 'make test-papers  the quick forms of all plans that rebuild papers, with their effects and without; ten minutes'
	@echo 'make test-faults   100 rounds of each kind of fault, every block and byte verified, and 1,000 histories of many initiators; FAULT_ROUNDS=1000 for as many of each'
	@echo 'make test-consistency  a whole target with many initiators in virtual time, held to what the standards allow, a million histories; SEEDS=N for another number'
	@echo 'make test-oracle   checks that the oracle detects known faults, put back one by one into a copy of the tree; minutes'
	@echo 'make test-kernels  the Linux kernel at the other end, and its failing disks under our target, in virtual machines; minutes'
	@echo 'make test-packages  the Debian package in a clean Debian, installed, used and purged, and the static binary if there is one; minutes'
	@echo 'make conformance   libiscsi'"'"'s suite on our target and on tgtd, as a page of Markdown; LIBISCSI_SOURCE=DIR for the current suite too'
	@echo 'make fuzz    peers that send anything, a minute for each; FUZZ_SECONDS=3600 for longer'
	@echo 'make check   format, lints, types, dependency licences and advisories'
	@echo 'make bench   every number that wansan promises, beside its peers; bench-peers, -long_path, -relay, -emulator, -vpn, -read_io, -captures, -diagnose, -tracepoints for one; bench-sim and bench-predictions take half an hour each; attached disks: cargo bench -p wansan --bench long_path -- attached'
	@echo 'make profile  where each nanosecond of a 4 KiB read goes, by perf, at both ends; half a minute'
	@echo 'make build   the release binary, $(WANSAN)'
	@echo 'make deb     a Debian package of it, below $(TARGET)/debian'
	@echo 'make static  a binary without libraries and without eBPF, $(STATIC)'
	@echo 'make image   an image of a container with that binary alone'
	@echo 'make web     the page of the reports, $(PAGE)'
	@echo 'make setup   install (or name) what building and testing need'
	@echo 'make clean   remove what was built; run folders stay'

setup:
	@setup/need build ebpf test check

build: web
	@setup/need build ebpf
	@cargo build --release --locked --package wansan $(EBPF)

deb: build
	@setup/need deb
	@setup/make-deb $(TARGET)

static: web
	@setup/need build static
	@cargo build --release --locked --package wansan --target $(STATIC_TARGET)

image: static
	@setup/need image
	@setup/make-image $(STATIC)

demo: web
	@setup/need build
	@echo 'building wansan for the demo: minutes the first time'
	@cargo build --profile demo --locked --package wansan
	@echo 'running $(DEMO_PLAN): a minute and a half'
	@$(TARGET)/demo/wansan lab run $(DEMO_PLAN)

web: $(PAGE)

test: web
	@setup/need build ebpf test
	@node setup/run-tests.mjs

test-packages: deb
	@setup/need build ebpf test packages
	@WANSAN_DEB=$$(ls -t $(abspath $(TARGET))/debian/*.deb | head -n 1) WANSAN_STATIC=$(abspath $(wildcard $(STATIC))) \
		cargo test --quiet --locked --package wansan $(EBPF) --test packages

test-all: test test-packages test-papers test-faults test-consistency test-oracle test-kernels

test-papers: web
	@setup/need build ebpf test
	@cargo test --locked --package wansan $(EBPF) --test limits -- --ignored

test-faults: web
	@setup/need build ebpf
	@WANSAN_FAULT_ROUNDS=$(or $(FAULT_ROUNDS),100) WANSAN_FAULT_HISTORIES=$(or $(FAULT_ROUNDS),1000) cargo test --locked --package wansan --package wansan-relay \
		$(EBPF) --test faults

test-consistency:
	@setup/need build ebpf
	@WANSAN_CONSISTENCY_SEEDS=$(or $(SEEDS),1000000) nice cargo test --locked --release \
		--package wansan-consistency --test simulation -- --nocapture seeds_break_no_rule

test-oracle:
	@setup/need build ebpf
	@nice cargo test --locked --package wansan-consistency --test oracle -- --ignored --nocapture

test-kernels: web
	@setup/need build ebpf kernels
	@cargo test --quiet --locked --package wansan --package wansan-lab $(EBPF) --test interop --test emulator -- \
		--ignored --test-threads=1 kernels::

conformance: web
	@setup/need build ebpf test >&2
	@cargo test --quiet --locked --package wansan $(EBPF) --test conformance -- --page

fuzz:
	@setup/need fuzz
	@setup/run-fuzz

check: web
	@setup/need build ebpf check
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets --locked -- -D warnings
	@cargo clippy --workspace --all-targets --locked $(EBPF) -- -D warnings
	@npm --prefix web run --silent check
	@setup/check-dependencies

bench: web
	@setup/need build ebpf test bench
	@setup/run-benches

bench-%: web
	@setup/need build ebpf test bench
	@setup/run-benches $*

profile: build
	@setup/need profile
	@setup/profile $(WANSAN)

clean:
	@cargo clean --quiet
	@rm -rf web/dist web/node_modules

$(PACKAGES): web/package.json web/package-lock.json
	@setup/need node
	@npm --prefix web ci --no-audit --no-fund --loglevel=error
	@touch $@

$(PAGE): $(PAGE_SOURCES) $(PACKAGES)
	@npm --prefix web run --silent build
