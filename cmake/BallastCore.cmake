# ballast_core: the portable layers (base, tensor, formats) as one static library, for any compiler and with or without an
# operating system. It uses no exceptions, type information, threads, files or locale, and a program that opens with a
# list of readers (ballast/formats/drivers.h) links only those:
#
#   scripts/fetch_zlib_source
#   cmake -S . -B build-armhf -DBALLAST_CORE_ONLY=ON -DBALLAST_TESTS=OFF -DCMAKE_BUILD_TYPE=MinSizeRel \
#     --toolchain cmake/toolchains/armhf.cmake
#   cmake --build build-armhf --target ballast_core
#
# No library of the target's distribution is needed. fmt is used as headers (libfmt-dev), without its locale. zlib and
# BLAKE3 are compiled from C sources, which are the same for every target: zlib's are Debian's, which
# scripts/fetch_zlib_source puts into the cache; BLAKE3's are those of librust-blake3-dev. BALLAST_FMT_INCLUDE,
# BALLAST_ZLIB_SOURCES and BALLAST_BLAKE3_SOURCES name other folders. Programs link with -Wl,--gc-sections.
#
# With BALLAST_TESTS it keeps exceptions and type information, which the tests use, and tests/platforms tests it: by
# `make test-platforms` under QEMU, and without a toolchain file on this machine.

set(core_cache "$ENV{BALLAST_CACHE}")
if(NOT core_cache AND DEFINED ENV{XDG_CACHE_HOME})
  set(core_cache "$ENV{XDG_CACHE_HOME}/ballast")
elseif(NOT core_cache)
  set(core_cache "$ENV{HOME}/.cache/ballast")
endif()
file(GLOB core_blake3 "/usr/share/cargo/registry/blake3-*/c")
find_path(BALLAST_FMT_INCLUDE fmt/format-inl.h PATHS /usr/include NO_CMAKE_FIND_ROOT_PATH DOC "Folder with fmt's headers")
find_path(BALLAST_ZLIB_SOURCES inflate.c PATHS "${core_cache}/zlib-source" NO_CMAKE_FIND_ROOT_PATH
          DOC "Folder with zlib's C sources")
find_path(BALLAST_BLAKE3_SOURCES blake3_dispatch.c PATHS ${core_blake3} NO_CMAKE_FIND_ROOT_PATH
          DOC "Folder with the official C sources of BLAKE3")
foreach(needed BALLAST_FMT_INCLUDE BALLAST_ZLIB_SOURCES BALLAST_BLAKE3_SOURCES)
  if(NOT ${needed})
    message(FATAL_ERROR "${needed} is not set, and what it should name was not found: cmake/BallastCore.cmake says where "
                        "it comes from")
  endif()
endforeach()

# fmt's headers alone: the folder they are in also has those of this machine's C library.
set(core_headers "${PROJECT_BINARY_DIR}/core_headers")
file(MAKE_DIRECTORY "${core_headers}")
file(CREATE_LINK "${BALLAST_FMT_INCLUDE}/fmt" "${core_headers}/fmt" SYMBOLIC)

set(core_c blake3 blake3_dispatch blake3_portable)
list(TRANSFORM core_c PREPEND "${BALLAST_BLAKE3_SOURCES}/")
set(core_zlib adler32 crc32 deflate inffast inflate inftrees trees zutil)
list(TRANSFORM core_zlib PREPEND "${BALLAST_ZLIB_SOURCES}/")
list(APPEND core_c ${core_zlib})
list(TRANSFORM core_c APPEND ".c")
add_library(ballast_core_c OBJECT ${core_c})
target_include_directories(ballast_core_c PRIVATE "${BALLAST_BLAKE3_SOURCES}" "${BALLAST_ZLIB_SOURCES}")
target_compile_definitions(ballast_core_c PRIVATE
  BLAKE3_NO_SSE2 BLAKE3_NO_SSE41 BLAKE3_NO_AVX2 BLAKE3_NO_AVX512 BLAKE3_USE_NEON=0)
target_compile_options(ballast_core_c PRIVATE -w -ffunction-sections -fdata-sections)

file(GLOB core_sources CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/ballast/base/*.cc" "${PROJECT_SOURCE_DIR}/ballast/tensor/*.cc"
  "${PROJECT_SOURCE_DIR}/ballast/formats/*.cc" "${PROJECT_SOURCE_DIR}/ballast/formats/*/*.cc")
include(BallastVersion)
add_library(ballast_core STATIC ${core_sources} "${version_source}" $<TARGET_OBJECTS:ballast_core_c>)
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
