# The few commands of daily work; CMake does the building. `make` alone prints what there is.

SHELL := /bin/bash
JOBS ?= $(shell nproc)
ONEDNN3 ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/varve/onednn3
SOURCES = find include src cli tests examples bench python \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 2>/dev/null
CTEST = ctest --output-on-failure --no-tests=error -j$(JOBS)

# Configures once, in the preset's own folder, and again when tests are wanted that were left out before; after that the
# build notices by itself when CMake must run again. Packages are asked for only where something is about to be built.
configure = grep -qs 'VARVE_TESTS:BOOL=$(4)' $(2)/CMakeCache.txt || cmake --preset $(1) -DVARVE_TESTS=$(4) $(3)
configure_command = test -f build/build.ninja || cmake --preset dev -DVARVE_TESTS=OFF
compile = cmake --build $(1) -j$(JOBS)

export UBSAN_OPTIONS ?= print_stacktrace=1

.DEFAULT_GOAL := help
.PHONY: help setup build demo examples cuda docs site test test-pages test-python test-python-asan test-neighbours test-cluster \
        wheel \
        wheel-cuda test-wheel test-wheel-cuda test-install deb test-deb test-full test-slow test-asan test-no-onednn \
        test-onednn3 tidy format format-check clean

help:
	@echo 'Varve, a deep-learning framework in C++20.'
	@echo
	@echo '  make demo          set up, build the command, and train a first network: start here'
	@echo '  make build         set up and build the command, its benchmarks too: build/varve, build/varve-bench'
	@echo '  make test          set up, build everything, and run the tests'
	@echo '  make examples      build the examples: build/examples/'
	@echo '  make cuda          build the CUDA backend: build/lib/libvarve_cuda.so (needs the CUDA toolkit and cuDNN)'
	@echo '  make test-pages    the tests of pages, in a browser'
	@echo '  make test-python   the Python package and its tests (build tools from PyPI); test-python-asan: under sanitizers'
	@echo '  make test-neighbours  arrays shared with PyTorch, JAX and Hugging Face (gigabytes from PyPI)'
	@echo '  make test-cluster  trainings on Ray, Spark, Slurm and mpirun, here (a gigabyte from PyPI)'
	@echo '  make wheel         the Python package as a wheel: build/wheel/; test-wheel installs and uses it'
	@echo '  make wheel-cuda    its CUDA backend as a second wheel: build/wheel-cuda/; test-wheel-cuda tries it'
	@echo '  make deb           Debian packages of the command, library and headers: build/deb/; test-deb tries them'
	@echo '  make test-full     the slow tests, and all under sanitizers, without oneDNN, and with oneDNN 3.x;'
	@echo '                     each also alone: test-slow, test-asan, test-no-onednn, test-onednn3'
	@echo '  make docs          write docs/operators.md and the tables of docs/network-files.md anew'
	@echo '  make site          the documentation and the results as a static site: build/site (MkDocs, from PyPI)'
	@echo '  make format        write every source in the house style; format-check only looks; tidy runs clang-tidy'
	@echo '  make setup         install what the command needs; tools/setup --help lists the other tiers'
	@echo '  make clean         remove everything that was built'
	@echo
	@echo 'One group of tests:  ctest --test-dir build -L ops          (a folder of tests/)'
	@echo 'One test:            ctest --test-dir build -R Philox --output-on-failure'
	@echo '                     build/tests/test_ops --gtest_filter=*matmul*'
	@echo 'Where time goes:     tools/build-times'
	@echo 'Other builds:        cmake --list-presets; docs/building.md lists the options'
	@echo 'Jobs in parallel:    make test JOBS=8   (now $(JOBS))'

setup:
	@tools/setup command

build: setup
	@$(configure_command)
	@$(call compile,build) --target varve_cli varve_bench_cli

demo: setup
	@$(configure_command)
	@$(call compile,build) --target varve_cli
	@build/varve demo

examples: setup
	@$(configure_command)
	@$(call compile,build) --target examples

cuda: setup
	@$(configure_command)
	@$(call compile,build) --target varve_cli varve_bench_cli varve_cuda

docs: build
	@build/varve ops --markdown > docs/operators.md
	@sed -i '/^<!-- From here on/q' docs/network-files.md
	@{ echo; build/varve schema --markdown; } >> docs/network-files.md

site:
	@tools/setup full
	@tools/site

test:
	@tools/setup tests
	@$(call configure,dev,build,,ON)
	@$(call compile,build)
	@cd build && $(CTEST) -LE 'pages|slow'

test-python:
	@tools/setup python
	@JOBS=$(JOBS) tools/test-python

test-neighbours:
	@tools/setup python
	@JOBS=$(JOBS) tools/test-python --neighbours

test-cluster:
	@tools/setup cluster
	@JOBS=$(JOBS) tools/test-python --cluster

test-python-asan:
	@tools/setup python
	@JOBS=$(JOBS) tools/test-python --asan

wheel:
	@tools/setup python
	@tools/wheel

wheel-cuda: cuda
	@tools/setup python
	@tools/wheel-cuda

test-wheel:
	@tools/setup packages
	@[ -n "$$(ls build/wheel/varve_dl-*.whl 2> /dev/null)" ] || tools/wheel
	@tools/test-wheel

test-wheel-cuda: wheel-cuda
	@$(call configure,dev,build,,ON)
	@[ -n "$$(ls build/wheel/varve_dl-*.whl 2> /dev/null)" ] || tools/wheel
	@JOBS=$(JOBS) tools/test-wheel-cuda

test-install:
	@tools/setup packages
	@tools/test-install

deb:
	@tools/setup packages
	@JOBS=$(JOBS) tools/deb

test-deb:
	@tools/setup packages
	@[ -n "$$(ls build/deb/varve_*.deb 2> /dev/null)" ] || JOBS=$(JOBS) tools/deb
	@tools/test-deb

test-pages:
	@tools/setup pages
	@$(call configure,dev,build,,ON)
	@$(call compile,build) --target varve_cli varve_bench_cli test_pages
	@cd build && $(CTEST) -L pages

# All parts run, even when one fails; the last lines say which did.
test-full:
	@failed=; \
	for part in test-pages test-slow test-asan test-no-onednn test-onednn3; do \
	  echo "== $$part"; $(MAKE) --no-print-directory $$part || failed="$$failed $$part"; \
	done; \
	if [ -n "$$failed" ]; then echo "test-full FAILED in:$$failed"; exit 1; fi; \
	echo 'test-full passed.'

# The whole zoo at full size, a run that is killed fifty times, the rest of the operators on the emulated GPU, and kernel
# texts optimised by NVRTC.
test-slow:
	@tools/setup tests
	@$(call configure,dev,build,,ON)
	@$(call compile,build)
	@cd build && ctest --output-on-failure -j$(JOBS) -L slow
	@VARVE_TEST_FULL=1 OMP_WAIT_POLICY=passive build/tests/test_zoo --gtest_filter='*Full*' --gtest_brief=1
	@VARVE_TEST_FULL=1 OMP_WAIT_POLICY=passive build/tests/test_cli --gtest_filter='Kill*'

test-asan:
	@tools/setup tests
	@$(call configure,asan,build-asan,,ON)
	@$(call compile,build-asan)
	@cd build-asan && $(CTEST) -LE pages

test-no-onednn:
	@tools/setup tests
	@$(call configure,no-onednn,build-no-onednn,,ON)
	@$(call compile,build-no-onednn)
	@cd build-no-onednn && $(CTEST) -LE pages

test-onednn3:
	@tools/setup full
	@tools/fetch-onednn3 '$(ONEDNN3)'
	@$(call configure,onednn3,build-onednn3,-DVARVE_ONEDNN_ROOT='$(ONEDNN3)',ON)
	@$(call compile,build-onednn3)
	@cd build-onednn3 && $(CTEST) -LE pages

tidy:
	@tools/tidy

format:
	@$(SOURCES) | xargs -0 -r -n 16 -P $(JOBS) clang-format -i

format-check:
	@$(SOURCES) | xargs -0 -r -n 16 -P $(JOBS) clang-format --dry-run --Werror \
	  || { echo 'format-check: run "make format".'; exit 1; }

clean:
	rm -rf build build-files build-asan build-no-onednn build-onednn3 build-python build-deb
