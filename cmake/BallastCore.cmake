# ballast_core: the portable layers (base, tensor, formats) as one static library, for any compiler and with or without an
# operating system. It uses no exceptions, type information, threads, files or locale, and a program that opens with a
# list of readers (ballast/formats/drivers.h) links only those:
#
#   scripts/fetch_zlib_source
#   cmake -S . -B build-armhf -DBALLAST_CORE_ONLY=ON -DBALLAST_TESTS=OFF -DCMAKE_BUILD_TYPE=MinSizeRel \
#     --toolchain cmake/toolchains/armhf.cmake
#   cmake --build build-armhf --target ballast_core
#
# cmake/PortableSources.cmake says what it is compiled from. Programs link with -Wl,--gc-sections.
#
# With BALLAST_TESTS it keeps exceptions and type information, which the tests use, and tests/platforms tests it: by
# `make test-platforms` under QEMU, and without a toolchain file on this machine.

include(PortableSources)
set(core_headers "${PROJECT_BINARY_DIR}/core_headers")
link_fmt_headers("${core_headers}")

add_library(ballast_core_c OBJECT ${portable_foreign})
target_include_directories(ballast_core_c PRIVATE "${BALLAST_BLAKE3_SOURCES}" "${BALLAST_ZLIB_SOURCES}")
target_compile_definitions(ballast_core_c PRIVATE ${portable_definitions})
target_compile_options(ballast_core_c PRIVATE -w -ffunction-sections -fdata-sections)

include(BallastVersion)
add_library(ballast_core STATIC ${portable_sources} "${version_source}" $<TARGET_OBJECTS:ballast_core_c>)
add_dependencies(ballast_core ballast_version)
target_include_directories(ballast_core PUBLIC "${PROJECT_SOURCE_DIR}")
target_include_directories(ballast_core SYSTEM PUBLIC "${core_headers}" "${BALLAST_ZLIB_SOURCES}"
                           PRIVATE "${BALLAST_BLAKE3_SOURCES}")
# Without a separator of thousands to look up, fmt does without std::locale.
target_compile_definitions(ballast_core PUBLIC FMT_HEADER_ONLY FMT_STATIC_THOUSANDS_SEPARATOR=44)
target_compile_options(ballast_core PRIVATE -ffunction-sections -fdata-sections -ffp-contract=off)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^arm")
  target_compile_options(ballast_core PUBLIC -Wno-psabi)  # what changed in GCC 7 concerns nobody here
endif()
if(NOT BALLAST_TESTS)
  target_compile_options(ballast_core PRIVATE -fno-exceptions -fno-rtti -fno-threadsafe-statics)
endif()
target_link_libraries(ballast_core PRIVATE ballast_options)
ballast_unity(ballast_core)
set_source_files_properties("${version_source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

if(BALLAST_TESTS)
  enable_testing()
  add_subdirectory(tests/platforms)
endif()
