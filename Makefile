# understudy: build, test and try out. `make` alone lists the targets.
#
# Programs that are fetched for this directory are in ./.env and ./build/tools, everything that is
# built in ./target and ./build.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory
.DEFAULT_GOAL := help

CARGO ?= cargo

# Recipes that need MPI run in the environment that `make env` prints.
IN_ENV = . ./.env/env.sh;

# Tests are compiled by their own profile, with all packages, so that cargo builds each package once
# for all targets.
TEST = $(IN_ENV) $(CARGO) test --profile checks --workspace

.PHONY: help setup env build install notices uninstall deb deb-tree man links docs examples generate test quick test-all sweep soak fuzz gpu-check lint audit nightly demo picture conformance bench bench-argtrig bench-collide bench-journal bench-memory bench-scaling bench-supersteps lammps libraries slurm gridengine python intelmpi fortran distributions clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## find or install what examples and tests need (Open MPI, libclang); cheap when done
	@packaging/setup.sh

env: setup ## print shell exports for the MPI of `make setup`: eval "$(make -s env)"
	@cat ./.env/env.sh

# Needs no MPI and no libclang: only tests and examples do.
build: ## build understudy and its tools (needs Rust and a C compiler, no MPI)
	$(CARGO) build --release --locked

# The files of understudy find each other in their own directory, so they are all in lib/understudy.
PREFIX  ?= /usr/local
DESTDIR ?=
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
STRIP   ?= strip
PLACED  := sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@VERSION@|$(VERSION)|g'

install: ## install what `make build` has built: PREFIX=/usr/local DESTDIR=
	@test -x '$(RELEASE)/ckptd' || { echo "$(RELEASE) has nothing to install; run make build first" >&2; exit 1; }
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/include' '$(DESTDIR)$(PREFIX)/lib/understudy' '$(DESTDIR)$(PREFIX)/lib/systemd/user' \
	    '$(DESTDIR)$(PREFIX)/libexec/understudy/agents' '$(DESTDIR)$(PREFIX)/share/understudy' \
	    '$(DESTDIR)$(PREFIX)/share/man/man1' '$(DESTDIR)$(PREFIX)/share/modulefiles/understudy' \
	    '$(DESTDIR)$(PREFIX)/share/bash-completion/completions' '$(DESTDIR)$(PREFIX)/share/zsh/site-functions' \
	    '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d' '$(DESTDIR)$(PREFIX)/share/doc/understudy'
	install -m 755 '$(RELEASE)/understudy' '$(DESTDIR)$(PREFIX)/bin'
	install -m 755 '$(RELEASE)/ckptd' '$(DESTDIR)$(PREFIX)/lib/understudy'
	install -m 644 '$(RELEASE)/libunderstudy.so' '$(RELEASE)/libunderstudy_mpich.so' '$(RELEASE)/libunderstudy_debian.so' '$(RELEASE)/libunderstudy_standard.so' '$(RELEASE)/libunderstudy_fortran.so' '$(RELEASE)/libunderstudy_shim.so' '$(RELEASE)/libunderstudy_runtime.so' \
	    '$(DESTDIR)$(PREFIX)/lib/understudy'
	for file in $(addprefix lib/understudy/,ckptd libunderstudy.so libunderstudy_mpich.so libunderstudy_debian.so libunderstudy_standard.so libunderstudy_fortran.so libunderstudy_shim.so libunderstudy_runtime.so) bin/understudy; do \
	    $(STRIP) --strip-all "$(DESTDIR)$(PREFIX)/$$file"; done
	ln -sf ../lib/understudy/ckptd '$(DESTDIR)$(PREFIX)/bin/ckptd'
	install -m 644 interpose/include/understudy.h '$(DESTDIR)$(PREFIX)/include'
	$(PLACED) packaging/ckptd.service > '$(DESTDIR)$(PREFIX)/lib/systemd/user/ckptd.service'
	$(PLACED) packaging/modulefile > '$(DESTDIR)$(PREFIX)/share/modulefiles/understudy/$(VERSION)'
	install -m 755 packaging/agents/* '$(DESTDIR)$(PREFIX)/libexec/understudy/agents'
	install -m 644 packaging/spank_understudy.c '$(DESTDIR)$(PREFIX)/share/understudy'
	'$(RELEASE)/understudy' man '$(DESTDIR)$(PREFIX)/share/man/man1'
	'$(RELEASE)/ckptd' man '$(DESTDIR)$(PREFIX)/share/man/man1'
	'$(RELEASE)/understudy' completions bash > '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/understudy'
	'$(RELEASE)/understudy' completions zsh > '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_understudy'
	'$(RELEASE)/understudy' completions fish > '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/understudy.fish'
	install -m 644 README.md CHANGELOG.md CITATION.cff CONTRIBUTING.md SECURITY.md LICENSE-MIT LICENSE-APACHE THIRD-PARTY '$(DESTDIR)$(PREFIX)/share/doc/understudy'
	cd docs && find . -name '*.md' -o -name '*.svg' | while read -r file; do \
	    install -D -m 644 "$$file" '$(DESTDIR)$(PREFIX)/share/doc/understudy/docs'/"$$file"; done

notices: ## write the licences of the crates that are linked into THIRD-PARTY
	packaging/notices.py THIRD-PARTY

# Directories of other packages (such as share/man/man1) are kept, whether empty or not.
uninstall: ## remove what `make install` has installed: PREFIX=/usr/local DESTDIR=
	cd '$(DESTDIR)$(PREFIX)' && rm -f bin/understudy bin/ckptd include/understudy.h lib/systemd/user/ckptd.service \
	    share/man/man1/understudy.1 share/man/man1/understudy-*.1 share/man/man1/ckptd.1 share/man/man1/ckptd-*.1 \
	    share/bash-completion/completions/understudy share/zsh/site-functions/_understudy \
	    share/fish/vendor_completions.d/understudy.fish
	cd '$(DESTDIR)$(PREFIX)' && rm -rf lib/understudy libexec/understudy share/understudy share/modulefiles/understudy share/doc/understudy

# Tools that cargo installs, in this directory only. Each takes a few minutes, once.
TOOLS := $(CURDIR)/build/tools
CARGO_DEB := $(TOOLS)/bin/cargo-deb
CARGO_DENY := $(TOOLS)/bin/cargo-deny

$(CARGO_DEB): TOOL := cargo-deb@3.8.0
$(CARGO_DENY): TOOL := cargo-deny@0.20.2
$(CARGO_DEB) $(CARGO_DENY):
	$(CARGO) install --quiet --locked --root '$(TOOLS)' --target-dir '$(TOOLS)/target' $(TOOL)
	rm -rf '$(TOOLS)/target'

# Files of the Debian package, as `make install` installs them.
deb-tree:
	rm -rf build/debian
	$(MAKE) install PREFIX=/usr DESTDIR='$(CURDIR)/build/debian'

deb: build $(CARGO_DEB) ## make a Debian package in build/
	rm -f build/*.deb
	$(MAKE) deb-tree
	'$(CARGO_DEB)' -p ckptd --no-build --output '$(CURDIR)/build'

man: build ## write the man pages into build/man
	'$(RELEASE)/understudy' man build/man
	'$(RELEASE)/ckptd' man build/man

# mdbook is installed in this directory only, which takes a few minutes, once.
MDBOOK := $(CURDIR)/.env/mdbook/bin/mdbook

$(MDBOOK):
	$(CARGO) install --quiet --locked --root '$(CURDIR)/.env/mdbook' --target-dir '$(CURDIR)/build/mdbook' \
	    --no-default-features --features search mdbook@0.5.4
	rm -rf build/mdbook

links: ## check the links of all documents
	$(CARGO) test --quiet --profile checks --workspace --test documents

# The documentation of a module may link to private items, which only its source shows.
docs: links $(MDBOOK) ## build the book (build/book) and the API documentation (target/doc)
	'$(MDBOOK)' build
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' $(CARGO) doc --quiet --no-deps --workspace --lib

generate: ## write the generated sources and documents from the tables
	$(CARGO) run --quiet -p understudy-table --example generate
	$(CARGO) run --quiet -p understudy-settings --example reference

examples: setup ## build the example programs into build/examples
	@$(IN_ENV) $(MAKE) -j "$$(nproc)" -C c-examples OUT='$(CURDIR)/build/examples'
	@$(IN_ENV) $(MAKE) -j "$$(nproc)" -C ffi-tests/programs OUT='$(CURDIR)/build/programs'

# Builds the products and the tests in parallel: either build alone would leave processors idle.
.PHONY: both
both: setup examples
	@$(IN_ENV) trap wait EXIT; $(CARGO) build --release & products=$$!; $(TEST) --no-run; wait $$products

# Tests that run jobs, by cargo-nextest.
JOBS = $(IN_ENV) ffi-tests/run

# Tests that run no jobs do not need the products, so they run while cargo still compiles these.
test: setup examples ## run the tests: every promise once
	@$(IN_ENV) $(CARGO) build --release & products=$$!; failed=0; \
	    { $(TEST) --no-run; } && { $(TEST) --exclude ffi-tests --no-fail-fast; } || failed=1; \
	    wait $$products && { $(JOBS); } || failed=1; exit $$failed

# Names of tests that run a job of each kind.
QUICK := conformance::messages_of_all_modes conformance::collectives \
         conformance::communicators promise:: symbols::the_preload_library_exports \
         sweep::heat2d_survives inert::ordinary_programs \
         kill_inside::a_worker_may_die_at_any_point_of_a_checkpoint \
         limits::the_death_of_an_idle_spare limits::without_a_spare_left

quick: both ## run the unit tests and a few jobs (two minutes after a build)
	$(TEST) --exclude ffi-tests
	$(JOBS) $(QUICK)

# Tests that take an hour alone have their own targets: sweep, soak.
test-all: both ## run the variants of the tests, too (three quarters of an hour)
	@export FFI_TESTS_ALL=1; failed=0; \
	    { $(TEST) --exclude ffi-tests --no-fail-fast; } || failed=1; \
	    { $(JOBS) --profile variants --run-ignored all; } || failed=1; exit $$failed

# Tests whose variants are part of the sweep.
SWEPT := aloof:: distributions:: kill_anywhere:: kill_inside:: kill_twice:: plugins:: providers:: \
         sweep::

# Kills per worker and program; every kill is a run of one or two seconds.
SWEEP_TIMES ?= 40

sweep: build examples python ## kill every worker of every program at many moments (an hour)
	@$(MAKE) distributions || printf '==> %s\n' \
	    'other distributions cannot be installed: the tests that run jobs there are skipped'
	export FFI_TESTS_ALL=1 FFI_TESTS_TIMES=$(SWEEP_TIMES) FFI_TESTS_SWEEP=1; \
	    $(JOBS) --profile long --run-ignored all --no-capture $(SWEPT)

# Minutes of random failures, and the seed of an earlier run to repeat it.
MINUTES ?= 10
SEED    ?=

soak: build examples ## kill ranks at random for MINUTES=10 (SEED= repeats a run), then 34 in one run; no resource use may grow
	export FFI_TESTS_MINUTES=$(MINUTES) FFI_TESTS_SEED=$(SEED); \
	    $(JOBS) --profile long --run-ignored all --no-capture soak::

# Seconds of all fuzz targets together.
FUZZ_SECONDS ?= 120

fuzz: ## run the readers of files and messages on random input, for FUZZ_SECONDS=120
	@packaging/fuzz.sh '$(FUZZ_SECONDS)'

# Crates without the standard library cannot unwind, as the profile of the tests requires, so they
# are checked in the release profile. All other crates are checked in the profile of the tests,
# because `make test` then uses the same build scripts and macros.
NO_STD := face face-debian face-mpich face-standard fortran shim

lint: setup ## check formatting, warnings and shell scripts
	$(CARGO) fmt --all --check
	$(IN_ENV) $(CARGO) clippy --release $(NO_STD:%=-p understudy-%) -- -D warnings
	$(IN_ENV) $(CARGO) clippy --profile checks --workspace $(NO_STD:%=--exclude understudy-%) --all-targets -- -D warnings
	@$(IN_ENV) $(MAKE) -C c-examples check
	@$(IN_ENV) $(MAKE) -C ffi-tests/programs check
	@packaging/shellcheck.sh

OLDEST_RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# Checks that take too long for every change.
audit: setup $(CARGO_DENY) ## check licences, documentation of private items, and the oldest Rust
	'$(CARGO_DENY)' check licenses bans sources
	packaging/notices.py --check
	$(IN_ENV) RUSTDOCFLAGS='-D warnings' \
	    $(CARGO) doc --quiet --no-deps --workspace --lib --document-private-items
	@if ! command -v rustup >/dev/null; then \
	    printf 'SKIPPED: without rustup, Rust %s cannot be installed\n' '$(OLDEST_RUST)'; \
	else \
	    $(IN_ENV) rustup toolchain install --profile minimal '$(OLDEST_RUST)' && \
	        rustup run '$(OLDEST_RUST)' cargo check --quiet --locked --workspace --all-targets \
	            --target-dir build/oldest-rust; \
	fi

nightly: ## run all long checks one after the other (hours)
	@failed=0; for target in test-all sweep soak conformance fuzz audit bench; do \
	    $(MAKE) $$target || { printf '==> FAILED: make %s\n' $$target; failed=1; }; done; exit $$failed

gpu-check: build examples ## kill a rank of a program that uses an NVIDIA GPU, and compare
	@$(IN_ENV) packaging/gpu-check.sh

# mpi4py's own tests; MODULES="test_rma test_win" for some of them.
MODULES ?=

conformance: build examples python ## run mpi4py's own tests with and without understudy, and compare (20 minutes)
	@$(IN_ENV) python3 ffi-tests/conformance/compare.py $(MODULES)

demo: build examples ## kill a worker of a running program and watch it being replaced
	@$(IN_ENV) c-examples/demo.sh

# The picture in the README. Look at the picture before you commit it: the run on a busy machine
# differs.
picture: build examples ## draw docs/recovery.svg from a run in which a worker is killed
	$(IN_ENV) '$(RELEASE)/understudy' run -n 4 --spares 1 --interval 60ms --events build/picture --progress none \
	    --fault 'kill rank=2 at=commit.end epoch=6 delay=30ms' -- build/examples/heat2d 400 400 20000
	$(CARGO) run --quiet --release -p ckptd --example picture -- build/picture docs/recovery.svg

bench: build examples ## print the cost of understudy and the time of recoveries, as ratios
	@$(IN_ENV) $(MAKE) -C c-examples/bench OUT='$(CURDIR)/build/bench'
	@$(IN_ENV) python3 c-examples/bench/bench.py

bench-memory: build examples ## print the cost of static data in each mode, in time and memory (10 minutes)
	@$(IN_ENV) $(MAKE) -C c-examples/bench OUT='$(CURDIR)/build/bench'
	@$(IN_ENV) python3 c-examples/bench/memory.py

bench-journal: build examples ## print lengths and replay times of journals, and the memory that replicas save
	@$(IN_ENV) $(MAKE) -s -C c-examples OUT='$(CURDIR)/build/examples'
	@$(IN_ENV) python3 c-examples/bench/journal.py

bench-scaling: build examples ## print how memory, checkpoints and recoveries change with the number of workers (4 minutes)
	@$(IN_ENV) $(MAKE) -C c-examples/bench OUT='$(CURDIR)/build/bench'
	@$(IN_ENV) python3 c-examples/bench/scaling.py

bench-argtrig: build examples ## compare ways to survive a failed process of a dense solver, by the program and by understudy (15 minutes)
	@$(IN_ENV) $(MAKE) -C c-examples/bench OUT='$(CURDIR)/build/bench'
	@$(IN_ENV) python3 c-examples/bench/argtrig.py

bench-collide: setup ## compare saving states with computing backwards
	@$(IN_ENV) $(MAKE) -C c-examples/bench OUT='$(CURDIR)/build/bench'
	@$(IN_ENV) python3 c-examples/bench/collide.py

bench-supersteps: build examples ## print the cost of the skeleton of supersteps, without and with understudy
	@$(IN_ENV) python3 c-examples/bench/supersteps.py

lammps: ## install LAMMPS, which some tests run, from the distribution
	@packaging/lammps.sh

libraries: ## install parallel HDF5 and netCDF, PETSc and EZTrace, which some tests use, from the distribution
	@packaging/libraries.sh

slurm: ## unpack Slurm, under which some tests start jobs, into .env
	@packaging/batch_systems.sh slurm

gridengine: ## unpack Grid Engine, for variants of tests, into .env
	@packaging/batch_systems.sh gridengine

python: ## install mpi4py, numpy and a LAMMPS with threads, which some tests use, into .env
	@packaging/python.sh

intelmpi: ## install Intel MPI, with which some variants of the tests run, from the vendor's Python packages into .env (130 MB)
	@packaging/intelmpi.sh

# Debian's suites in which `make sweep` runs programs.
SUITES ?= trixie sid

distributions: ## make root file systems of SUITES="trixie sid", in which some tests run programs, in .env (root)
	@packaging/distributions.sh $(SUITES)

fortran: ## install a Fortran compiler and bindings, which some tests use, from the distribution
	@packaging/fortran.sh

clean: ## remove what was built (keeps .env)
	$(CARGO) clean
	rm -rf build
