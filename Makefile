# `make demo` and `make test` are all that a newcomer needs; both set everything up first.
.DEFAULT_GOAL := help
.PHONY: help setup configure build demo test lint format tidy asan tsan clean

export PYTHONPATH := $(CURDIR)/python
python := .venv/bin/python
jobs := $(shell nproc)
sources = $(shell git ls-files '*.cpp' '*.h' '*.cuh')

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 16

setup: ## install what the build needs (make demo and make test do this too)
	@scripts/setup.sh

configure: setup
	@test -e build/release/build.ninja || cmake --preset release >build/configure.log || \
	    { cat build/configure.log; exit 1; }

build: configure ## build everything, optimised, into build/release
	@cmake --build --preset release -j $(jobs)

demo: configure ## generate text with a real language model through one kernel
	@cmake --build --preset release -j $(jobs) --target stretto _core
	@$(python) examples/demo.py

test: build ## run every test, C++ and Python, and the style checks
	@scripts/test.sh

lint: setup ## check style: ruff, clang-format
	@scripts/lint.sh

format: setup ## rewrite sources in the house style
	@.venv/bin/clang-format -i $(sources)
	@.venv/bin/ruff check --fix -q . && .venv/bin/ruff format -q .

tidy: configure ## run clang-tidy (slow)
	@clang-tidy -p build/release --quiet $(filter %.cpp,$(sources))

asan: setup ## run the C++ tests under the address and undefined-behaviour sanitizers
	@cmake --preset asan >build/configure.log && cmake --build --preset asan -j $(jobs)
	@ctest --preset asan -j $(jobs)

tsan: setup ## run the tests of the threaded backend under the thread sanitizer
	@scripts/test.sh tsan

clean: ## remove all build outputs (keeps .venv)
	@rm -rf build python/stretto/_core*.so
