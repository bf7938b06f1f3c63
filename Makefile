# A thin front to CMake and scripts/. `make build` on a fresh machine installs what is missing and builds build/bin/ballast.
#   JOBS=N        how many compilers at once            PREFIX=/usr/local, DESTDIR=   where `make install` puts things
#   WERROR=ON     warnings are errors, as in CI
#   CUDA=ON       kernels for NVIDIA GPUs or no build; OFF: none; AUTO, the default: where nvcc is found (docs/cuda.md)
#   CUDA_ARCHITECTURES='80-ptx;90a'   fewer GPUs than docs/cuda.md lists, which compiles sooner
#   UNITY=OFF     each file compiled by itself: building everything takes twice as long, building after an edit is shorter.
#                 A build folder keeps what it was made with; a fresh one is made with ON.

JOBS ?= $(shell nproc)
WERROR ?= OFF
CUDA ?=
CUDA_ARCHITECTURES ?=
UNITY ?= $(if $(wildcard build/CMakeCache.txt),,ON)
PREFIX ?= /usr/local
DESTDIR ?=

# The generator counts only for a fresh build folder; one that has been made keeps its own.
configured = CMAKE_GENERATOR="$${CMAKE_GENERATOR:-$$(command -v ninja > /dev/null && echo Ninja || echo Unix Makefiles)}" \
	cmake --log-level=WARNING

.PHONY: build demo demo-chat test test-asan test-bare test-cuda test-opencl test-faults test-tsan bench bench-storage bench-peers bench-batching bench-serve bench-structured bench-cuda bench-python test-python test-wheel wheels interop interop-torch page test-page web test-web test-serve test-serve-asan test-serve-tsan test-platforms fuzz-serve format lint clean install bootstrap configure

build: configure
	cmake --build build -j $(JOBS) --target ballast ballast_static ballast_shared ballast_c

demo: build
	scripts/demo

# Downloads a model of 89 MiB from the Python Package Index and talks to it.
demo-chat: build
	scripts/demo_chat

test: configure
	cmake --build build -j $(JOBS)
	ctest --test-dir build --output-on-failure -j $(JOBS)

# The long form of a part of `test`: every call of every command that writes fails in turn.
test-faults: configure
	cmake --build build -j $(JOBS) --target ballast ballast_faults
	scripts/fault_test

# Not part of `test`: other builds of everything, five to ten times as slow. The first runs every test that sets no limit
# of time or memory, which hold for the program and not for its instrumented twin; the second what has threads of its
# own, without the slow loops of the reference backend. .ci/run has a short form of each.
limits = BurnpackHostile.TooManyTensors:BurnpackWrite.*Quickly:GptrsHostile.RefusesFloods*:GptrsHostile.ALong*:*BurnpackDamage*names_many*:Gpt2Small.*:Generate.TheWholeProcess*
asan_without = $(limits)
# Drivers are looked for where there are none: what they leak is their own.
without_opencl = OCL_ICD_VENDORS='$(CURDIR)/$(1)'
# Without the interception, the leak checker takes the thread-local variables of a library opened with dlopen for
# addresses that they are not, and ends with a signal of its own (the OpenCL loader has such variables).
asan_settings = ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:intercept_tls_get_addr=0 UBSAN_OPTIONS=print_stacktrace=1
asan_without_checks =
test-asan: bootstrap
	$(configured) --preset asan -DBALLAST_UNITY=ON -DBALLAST_SANITIZE_WITHOUT='$(asan_without_checks)'
	cmake --build build-asan -j $(JOBS)
	GTEST_FILTER='-$(asan_without)' $(call without_opencl,build-asan) \
	$(asan_settings) ctest --preset asan -j $(JOBS)

tsan_suites = io archive params ops device backends engine serve training
tsan_tests = *
empty =
space = $(empty) $(empty)
test-tsan: bootstrap
	$(configured) --preset tsan -DBALLAST_UNITY=ON
	cmake --build build-tsan -j $(JOBS) --target $(addprefix test_,$(tsan_suites))
	GTEST_FILTER='$(tsan_tests):-*/reference_*' $(call without_opencl,build-tsan) ctest --test-dir build-tsan --output-on-failure -j $(JOBS) \
	  -R '^($(subst $(space),|,$(tsan_suites)))(_[0-9]+)?$$'

# The Python module, installed into an environment of its own: its tests, and those of the package safetensors on it.
# With torch, JAX, Ray and whatever else it works with, several GB; .ci/run has a short form with torch alone.
test-python:
	scripts/bootstrap --interop
	scripts/test_python $(python_options)

# The source distribution and wheels in dist/, checked with auditwheel. PYTHONS="python3.10 python3.12": one wheel for each;
# ARM64=1: the wheel for arm64, cross-compiled.
wheels: bootstrap
	WERROR=$(WERROR) scripts/build_wheels $(if $(ARM64),--arm64) $(PYTHONS)

# Tries a wheel in bare systems of other Debian releases (RELEASES="trixie forky"; ARM64=1: under QEMU). Needs root.
test-wheel:
	scripts/test_wheel $(if $(ARM64),--arm64) $(RELEASES)

# The backend cuda on this machine's GPU: fails where there is none. For a GPU elsewhere, scripts/cuda_bundle makes a folder
# that runs the same tests there. cuda_suites="cuda backends" runs a part.
test-cuda:
	scripts/bootstrap --cuda
	$(MAKE) configure CUDA=ON
	cmake --build build -j $(JOBS) --target ballast ballast_fake_cuda $(addprefix test_,cuda backends device engine models runtime)
	tests/cuda/run_tests build/bin $(cuda_suites)

# The portable core on Cortex-M4 and M7 under QEMU, with budgets of code size (docs/embedding.md). bare_options="--board
# cortex-m7" runs one of them.
test-bare: build
	scripts/bootstrap --bare
	tests/bare/run_tests build/bin/ballast --jobs $(JOBS) $(bare_options)

# The backend opencl on this machine's OpenCL devices; PoCL, which is installed where there is no other, makes the CPU one.
# opencl_suites="models runtime" runs other suites.
test-opencl:
	scripts/bootstrap --opencl
	$(MAKE) configure
	cmake --build build -j $(JOBS) --target $(addprefix test_,$(or $(opencl_suites),opencl backends))
	tests/opencl/run_tests build/bin $(opencl_suites)

bench: bench-storage

bench-storage: configure
	cmake --build build -j $(JOBS) --target ballast ballast_bench
	scripts/bench

# Not part of `bench`: it installs PyTorch and other peers, several GB, compiles llama.cpp, and takes hours.
# peers_options="--only SmolLM2 --rounds 5" measures less, peers_options=--scaling how cost grows.
bench-peers: configure
	scripts/bootstrap --llama
	cmake --build build -j $(JOBS) --target ballast ballast_bench machine_limits model_worker tokenizer_bench training_bench
	scripts/bench_peers $(peers_options)

# Nor is this, which needs the same llama.cpp: many sequences at a time.
bench-batching: build
	scripts/bootstrap --llama
	scripts/bench_batching

# Nor this, which compiles llama.cpp's server: `ballast serve` under load. serve_options="--only SmolLM2 --quick" measures less.
bench-serve: build
	scripts/bootstrap --llama
	scripts/bench_serve $(serve_options)

# Nor this, which installs llguidance: what structured output costs per token.
bench-structured: build
	cmake --build build -j $(JOBS) --target mask_bench
	scripts/bench_structured

# Nor this, which needs an NVIDIA GPU: the backend cuda beside PyTorch, where that is installed.
bench-cuda:
	scripts/bootstrap --cuda
	$(MAKE) build CUDA=ON
	bench/cuda.py build/bin/ballast $(cuda_options)

# Nor this: the Python module beside safetensors, NumPy and torch.
bench-python: bootstrap
	scripts/bench_python

interop: configure
	cmake --build build -j $(JOBS) --target ballast ballast_c interop_train_sequential interop_render_template interop_tokenize \
	  interop_write_tokenizer
	scripts/interop

interop-torch: build
	scripts/interop_torch

# Rebuilds the chat page from web/chat. The built files are committed: nothing else needs npm.
page:
	scripts/build_page

# The long form of a part of `test`: 64 clients that disturb each other get what each gets alone, 10,000 leave at once,
# and 2,000 streams are open at a time.
# Then floods, slow clients, signals under load and the rest of tests/server/fault_test.py, each many times over.
test-serve: build
	tests/server/load_test.py build/bin/ballast models/default/model.gptrs --clients 64 --rounds 5 --cancel 10000 --streams 2000
	tests/server/fault_test.py build/bin/ballast --long

# The whole program under each sanitizer and under load. What memory it needs is left to the program that ships; the first
# report of a sanitizer ends the server, and with it the test. .ci/run runs the server's own suite under both.
serve_under = tests/server/serve_test.py $(1) && tests/server/fault_test.py $(1) --instrumented && \
	tests/server/load_test.py $(1) models/default/model.gptrs --cancel 1000 --instrumented
test-serve-asan: bootstrap
	$(configured) --preset asan -DBALLAST_UNITY=ON
	cmake --build build-asan -j $(JOBS) --target ballast
	export $(asan_settings); $(call serve_under,build-asan/bin/ballast)

test-serve-tsan: bootstrap
	$(configured) --preset tsan -DBALLAST_UNITY=ON
	cmake --build build-tsan -j $(JOBS) --target ballast
	export TSAN_OPTIONS=halt_on_error=1; $(call serve_under,build-tsan/bin/ballast)

# base, tensor and formats with their tests on other platforms, under QEMU. platforms_options="--quick armhf s390x" runs a part.
test-platforms:
	scripts/bootstrap --platforms
	JOBS=$(JOBS) scripts/test_platforms $(platforms_options)

# Requests that clang's libFuzzer makes up from those of real clients, for FUZZ_SECONDS. What it learns stays in
# build-fuzz/corpus; a request that breaks something is written to build-fuzz/crash-*.
FUZZ_SECONDS ?= 600
fuzz-serve:
	scripts/bootstrap --fuzz
	scripts/fuzz_serve $(FUZZ_SECONDS) $(JOBS)

# Drives the chat page in Chromium, against scripted answers and against `ballast serve` with SmolLM2 (89 MiB, fetched
# once). page_options="--screenshots docs/images" also writes the pictures of docs/serve.md.
test-page: build
	scripts/bootstrap --page
	cd web/chat && npm ci --silent && npm test --silent
	node tests/page/page_test.mjs --ballast build/bin/ballast $(page_options)

# The npm package web/ballast with its WebAssembly module (docs/web.md), and the page Ballast Lens, which is committed
# as it was built: nothing else needs npm.
web:
	scripts/bootstrap --web
	scripts/build_web
	scripts/build_lens

# The package in Node beside the program: every file of tests/data. Then the page in Chromium, which is compared with the
# program too. lens_options="--all" takes every file there as well, --measure prints how fast the page is, "--screenshots
# docs/images" writes the pictures of docs/lens.md.
test-web: build web
	scripts/bootstrap --page
	cd web/ballast && BALLAST=build/bin/ballast npm test --silent
	cd web/lens && npm test --silent
	node tests/web/lens_test.mjs --ballast build/bin/ballast $(lens_options)

format: bootstrap
	scripts/format

lint:
	scripts/bootstrap --lint
	scripts/check_layers
	scripts/check_docs
	scripts/format --check
	$(configured) --preset tidy
	cmake --build build-tidy -j $(JOBS)

clean:
	rm -rf build build-*

install: build
	DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)" --strip

bootstrap:
	@scripts/bootstrap

configure: bootstrap
	@$(configured) --preset dev -DBALLAST_WERROR=$(WERROR) $(if $(UNITY),-DBALLAST_UNITY=$(UNITY)) $(if $(CUDA),-DBALLAST_CUDA=$(CUDA)) \
	  $(if $(CUDA_ARCHITECTURES),'-DBALLAST_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES)')
