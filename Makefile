# The few commands of daily work; CMake does the building. `make` alone prints what there is.

SHELL := /bin/bash
JOBS ?= $(shell nproc)
ONEDNN3 ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/varve/onednn3
SOURCES = find include src cli tests examples bench \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 2>/dev/null
CTEST = ctest --output-on-failure --no-tests=error -j$(JOBS)

# Configures once, in the preset's own folder; after that the build notices by itself when CMake must run again.
configure = test -f $(2)/build.ninja -o -f $(2)/Makefile || cmake --preset $(1) $(3)
compile = cmake --build $(1) -j$(JOBS)

export UBSAN_OPTIONS ?= print_stacktrace=1

.DEFAULT_GOAL := help
.PHONY: help setup build demo docs site test test-full test-slow test-asan test-no-onednn test-onednn3 format format-check clean

help:
	@echo 'Varve, a deep-learning framework in C++20.'
	@echo
	@echo '  make demo          set up, build, and train a first network: start here'
	@echo '  make test          set up, build, and run the tests'
	@echo '  make build         set up and build: the varve command is build/varve'
	@echo '  make test-full     the slow tests, and all under sanitizers, without oneDNN, and with oneDNN 3.x;'
	@echo '                     each also alone: test-slow, test-asan, test-no-onednn, test-onednn3'
	@echo '  make docs          write docs/operators.md and the tables of docs/network-files.md anew'
	@echo '  make site          the documentation and the results as a static site: build/site (MkDocs, from PyPI)'
	@echo '  make format        write every source in the house style; format-check only looks'
	@echo '  make setup         install the Debian packages that the build needs, if any is missing'
	@echo '  make clean         remove everything that was built'
	@echo
	@echo 'One group of tests:  ctest --test-dir build -L ops          (a folder of tests/)'
	@echo 'One test:            ctest --test-dir build -R Philox --output-on-failure'
	@echo '                     build/tests/test_ops --gtest_filter=*matmul*'
	@echo 'Other builds:        cmake --list-presets; options are listed in README.md'
	@echo 'Jobs in parallel:    make test JOBS=8   (now $(JOBS))'

setup:
	@tools/setup

build: setup
	@$(call configure,dev,build)
	@$(call compile,build)

demo: build
	@build/varve demo

docs: build
	@build/varve ops --markdown > docs/operators.md
	@sed -i '/^<!-- From here on/q' docs/network-files.md
	@{ echo; build/varve schema --markdown; } >> docs/network-files.md

site:
	@tools/site

test: build
	@cd build && $(CTEST)

# All parts run, even when one fails; the last lines say which did.
test-full:
	@failed=; \
	for part in test-slow test-asan test-no-onednn test-onednn3; do \
	  echo "== $$part"; $(MAKE) --no-print-directory $$part || failed="$$failed $$part"; \
	done; \
	if [ -n "$$failed" ]; then echo "test-full FAILED in:$$failed"; exit 1; fi; \
	echo 'test-full passed.'

# The whole zoo at full size, and a run that is killed fifty times.
test-slow: build
	@VARVE_TEST_FULL=1 OMP_WAIT_POLICY=passive build/tests/test_zoo --gtest_filter='*Full*' --gtest_brief=1
	@VARVE_TEST_FULL=1 OMP_WAIT_POLICY=passive build/tests/test_train --gtest_filter='Kill*'

test-asan: setup
	@$(call configure,asan,build-asan)
	@$(call compile,build-asan)
	@cd build-asan && $(CTEST)

test-no-onednn: setup
	@$(call configure,no-onednn,build-no-onednn)
	@$(call compile,build-no-onednn)
	@cd build-no-onednn && $(CTEST)

test-onednn3:
	@tools/setup --full
	@tools/fetch-onednn3 '$(ONEDNN3)'
	@$(call configure,onednn3,build-onednn3,-DVARVE_ONEDNN_ROOT='$(ONEDNN3)')
	@$(call compile,build-onednn3)
	@cd build-onednn3 && $(CTEST)

format:
	@$(SOURCES) | xargs -0 -r -n 16 -P $(JOBS) clang-format -i

format-check:
	@$(SOURCES) | xargs -0 -r -n 16 -P $(JOBS) clang-format --dry-run --Werror \
	  || { echo 'format-check: run "make format".'; exit 1; }

clean:
	rm -rf build build-asan build-no-onednn build-onednn3
