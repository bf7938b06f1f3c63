# BLAKE3, as ballast_blake3: the distribution's library where there is one (libblake3-dev), else the official C sources
# that another of its packages (librust-blake3-dev) carries, compiled into our library with hidden symbols.

add_library(ballast_blake3 INTERFACE)
set(BALLAST_BLAKE3_OBJECTS "")

pkg_check_modules(BLAKE3 QUIET IMPORTED_TARGET libblake3)
if(BLAKE3_FOUND)
  target_link_libraries(ballast_blake3 INTERFACE PkgConfig::BLAKE3)
  return()
endif()

file(GLOB blake3_folders "/usr/share/cargo/registry/blake3-*/c")
find_path(BALLAST_BLAKE3_SOURCES blake3_dispatch.c HINTS ${blake3_folders}
          DOC "Folder with the official C sources of BLAKE3")
if(NOT BALLAST_BLAKE3_SOURCES)
  message(FATAL_ERROR "BLAKE3 is missing. Install libblake3-dev, or librust-blake3-dev where the distribution has no "
                      "libblake3-dev (scripts/bootstrap does that), or set BALLAST_BLAKE3_SOURCES to the folder 'c' "
                      "of the official sources.")
endif()

set(sources blake3.c blake3_dispatch.c blake3_portable.c)
set(definitions "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  foreach(level sse2 sse41 avx2 avx512)
    list(APPEND sources blake3_${level}_x86-64_unix.S)
  endforeach()
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  list(APPEND sources blake3_neon.c)
  set(definitions BLAKE3_USE_NEON=1)
endif()
list(TRANSFORM sources PREPEND "${BALLAST_BLAKE3_SOURCES}/")

add_library(ballast_blake3_objects OBJECT ${sources})
target_include_directories(ballast_blake3_objects PRIVATE "${BALLAST_BLAKE3_SOURCES}")
target_compile_definitions(ballast_blake3_objects PRIVATE ${definitions})
target_compile_options(ballast_blake3_objects PRIVATE -O3)
set_target_properties(ballast_blake3_objects PROPERTIES C_VISIBILITY_PRESET hidden)
set(BALLAST_BLAKE3_OBJECTS $<TARGET_OBJECTS:ballast_blake3_objects>)
target_include_directories(ballast_blake3 SYSTEM INTERFACE "${BALLAST_BLAKE3_SOURCES}")
