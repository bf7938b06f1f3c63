# A thin front to CMake and scripts/. `make build` on a fresh machine installs what is missing and builds build/bin/ballast.
#   JOBS=N        how many compilers at once            PREFIX=/usr/local, DESTDIR=   where `make install` puts things
#   WERROR=ON     warnings are errors, as in CI

JOBS ?= $(shell nproc)
WERROR ?= OFF
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: build demo test bench bench-storage interop format lint clean install bootstrap configure

build: configure
	cmake --build build -j $(JOBS) --target ballast ballast_static ballast_shared

demo: build
	scripts/demo

test: configure
	cmake --build build -j $(JOBS)
	ctest --test-dir build --output-on-failure -j $(JOBS)

bench: bench-storage

bench-storage: configure
	cmake --build build -j $(JOBS) --target ballast ballast_bench
	scripts/bench

interop: build
	scripts/interop

format: bootstrap
	scripts/format

lint:
	scripts/bootstrap --lint
	scripts/check_layers
	scripts/format --check
	cmake --preset tidy --log-level=WARNING
	cmake --build build-tidy -j $(JOBS)

clean:
	rm -rf build build-*

install: build
	DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)" --strip

bootstrap:
	@scripts/bootstrap

# The generator counts only for a fresh build folder.
configure: bootstrap
	@CMAKE_GENERATOR="$${CMAKE_GENERATOR:-$$(command -v ninja > /dev/null && echo Ninja || echo Unix Makefiles)}" \
	  cmake --preset dev -DBALLAST_WERROR=$(WERROR) --log-level=WARNING
