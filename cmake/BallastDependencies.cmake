# Libraries of the distribution. Each is used by few files; scripts/check_layers holds the list.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)

# toml11 is headers only; the CMake file of Ubuntu 22.04's package points to a path that is not there, so it is not asked.
find_path(TOML11_INCLUDE_DIR toml.hpp)
mark_as_advanced(TOML11_INCLUDE_DIR)
if(NOT TOML11_INCLUDE_DIR)
  message(FATAL_ERROR "toml.hpp of toml11 was not found: install libtoml11-dev, or set TOML11_INCLUDE_DIR")
endif()
add_library(ballast_toml11 INTERFACE)
target_include_directories(ballast_toml11 SYSTEM INTERFACE "${TOML11_INCLUDE_DIR}")

include(BallastBlake3)
