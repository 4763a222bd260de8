# Most targets run the script of the same name in scripts/, whose head describes its options.
.DEFAULT_GOAL := help
.PHONY: help run check field test test-c test-sanitizers test-ruby test-ha ha-demo lint bench bench-python instructions soak bench-timers fuzz docs \
  fmt miri wheels install install-c loom programs proofs sim test-page site \
  cluster

help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

run: ## build the server and run it on 127.0.0.1:6379 (PORT=7000, ARGS="my.conf --loglevel verbose"; SETUP=no installs nothing)
	@scripts/run

check: ## before each commit: check formatting, run clippy and the unit tests of changed crates
	@scripts/check

test: ## run the tests of all crates and bindings, and compare with a real redis-server (SETUP=no installs nothing)
	@scripts/test

test-ha: ## test failovers by Sentinel, with redis-py's client and mixed servers; two minutes
	@scripts/test-ha

ha-demo: ## run a primary, two replicas and three Sentinels, and kill the primary (ARGS="--fault stop", ARGS=--help)
	@scripts/setup redis sentinel
	@scripts/ha-demo $(ARGS)

cluster: ## run a cluster of three primaries and three replicas until Ctrl-C, and print how to reach it (ARGS=--help)
	@scripts/setup redis
	@scripts/cluster $(ARGS)

test-sanitizers: ## test the C and C++ bindings under ThreadSanitizer and Valgrind
	@scripts/test-c --sanitizers

test-c: ## test only the C and C++ bindings, as in `make test`
	@scripts/test-c

test-page: ## test the page of metrics-port in a headless Chromium; seconds (ARGS=--picture also draws the page of a busy server)
	@scripts/test-page $(ARGS)

test-ruby: ## test only the Ruby gems, with their extensions, in pure Ruby and on JRuby
	@scripts/test-ruby

programs: ## run real programs (queues, locks, limiters, clients) on redis-server and Punctual (ARGS=--quick: a few; ARGS=--help)
	@scripts/programs $(ARGS)

proofs: ## test kills, failovers, power cuts, link cuts, random commands and the simulation at full length; five hours (ARGS="kills power sim")
	@scripts/proofs $(ARGS)

install: ## install the server: stripped binary, systemd unit, man page and completions (PREFIX=/usr/local DESTDIR=)
	@scripts/install "$(or $(PREFIX),/usr/local)"

install-c: ## install the C library, its headers, pkg-config and CMake files (PREFIX=/usr/local LIBRARIES="punctual punctual-server")
	@LIBRARIES="$(LIBRARIES)" scripts/install-c "$(or $(PREFIX),/usr/local)"

lint: ## check formatting, clippy, Python, docs, dependencies, layout
	@scripts/lint

bench: ## measure the server's figures of docs/figures.md, beside redis-server (QUICK=1 for a short run)
	@scripts/bench

field: ## compare the figures that have a bar with redis-server, Redis 8.2 and Valkey 9.1, and renew docs/figures.md; 40 minutes
	@scripts/field

bench-timers: ## measure the timers beside the timers of other libraries (QUICK=1 for a short run, ARGS=--help)
	@scripts/bench-timers

bench-python: ## measure the Python package beside other packages (ARGS="aio --rounds 3", ARGS=--help)
	@scripts/bench-python

fuzz: ## run each fuzz target for a minute (FUZZ_TIME=1h, TARGETS="resp_parse", JOBS=2)
	@scripts/fuzz

wheels: ## build the Python packages' wheels in target/wheels (ARGS=--test: test them with every installed Python)
	@scripts/wheels $(ARGS)

docs: ## build the API documentation in target/doc
	cargo doc --workspace --no-deps --features punctual/async

site: ## build the site of all pages in target/site, and check its links
	@scripts/setup site
	@scripts/site

fmt: ## format all code
	cargo fmt --all

miri: ## run the library's tests under Miri, which finds undefined behaviour
	@scripts/miri

loom: ## test the timer driver's sleep and wake-up in every order of its threads
	@scripts/loom

sim: ## run whole servers, their clients and faults under one seed each (SEEDS=200, FROM=1, ONE=42, SECONDS_MAX=60, WITHOUT=Noise, CLUSTER=1)
	@scripts/sim

instructions: ## count the instructions of hot operations, and compare with the table (scripts/instructions --renew writes it)
	@scripts/instructions

soak: ## test the queues with millions of random operations (STORM_OPS=1000000 STORM_TIMERS=400 PUNCTUAL_SEED=17)
	STORM_OPS=$${STORM_OPS:-10000000} STORM_TIMERS=$${STORM_TIMERS:-20000} cargo test --release -p punctual --test storms
