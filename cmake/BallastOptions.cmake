# How everything of ours is compiled: language, warnings, sanitizers, where the results go.

include(CheckLinkerFlag)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
if(NOT BALLAST_CORE_ONLY)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # the same objects go into the static and the shared library
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

if(PROJECT_IS_TOP_LEVEL)
  # Line numbers are enough for a backtrace, and full debug information costs a quarter of the build. A build of
  # everything at once is for running and not for a debugger: without them it takes up to a seventh less, and a fifth of
  # the disk.
  set(debug_lines -g1)
  if(BALLAST_UNITY)
    set(debug_lines -g0)
  endif()
  string(REGEX REPLACE "-g( |$)" "${debug_lines}\\1" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")

  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
  set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

  find_program(BALLAST_CCACHE ccache)
  mark_as_advanced(BALLAST_CCACHE)
  if(BALLAST_CCACHE)
    # Build folders share objects: that of `make build` compiles for the one that a Python package is built in.
    set(launcher "${CMAKE_COMMAND}" -E env CCACHE_NOHASHDIR=1 "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" "${BALLAST_CCACHE}")
    foreach(language C CXX)
      if(NOT CMAKE_${language}_COMPILER_LAUNCHER)
        set(CMAKE_${language}_COMPILER_LAUNCHER ${launcher})
      endif()
    endforeach()
  endif()

  # Some thirty programs are linked with the whole library; the linker of binutils takes minutes for them.
  if(NOT BALLAST_CORE_ONLY AND NOT "${CMAKE_EXE_LINKER_FLAGS}" MATCHES "-fuse-ld")
    check_linker_flag(CXX -fuse-ld=mold BALLAST_MOLD)
    if(BALLAST_MOLD)
      add_link_options(-fuse-ld=mold)
    endif()
  endif()
endif()

# Linked privately by every target of ours, never by third-party sources.
add_library(ballast_options INTERFACE)
target_compile_options(ballast_options INTERFACE
  -Wall -Wextra -Wshadow -Wpedantic -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-qual -Wimplicit-fallthrough
  -Wextra-semi)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns about std::string's own operator+ (its bug 105329).
  target_compile_options(ballast_options INTERFACE -Wno-restrict)
endif()
if(BALLAST_UNITY)
  # A local name may well be the name of something in the file before, a source file is no header because another file
  # includes it, and the more GCC inlines, the more variables it takes for uninitialised. A build without unity gives all
  # of these warnings.
  target_compile_options(ballast_options INTERFACE -Wno-shadow
    $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
if(BALLAST_WERROR)
  target_compile_options(ballast_options INTERFACE -Werror)
endif()

if(BALLAST_SANITIZE)
  # Everything, third-party sources included, must agree on this.
  add_compile_options(-fsanitize=${BALLAST_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${BALLAST_SANITIZE})
  if(BALLAST_SANITIZE_WITHOUT)
    add_compile_options(-fno-sanitize=${BALLAST_SANITIZE_WITHOUT})
  endif()
  # Each check of undefined behaviour has pointers to what it says. In a program that may lie anywhere these are millions
  # of relocations: a third of the time and of the memory of each start, and tests start the program hundreds of times.
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
endif()

# Called by every target of ours with many files. Files that tell the compiler something of their own (options, the
# re-inclusion of Highway) stay alone.
function(ballast_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${BALLAST_UNITY} UNITY_BUILD_BATCH_SIZE 24)
endfunction()

# Called by targets in which no time is spent: they read requests and options, print, and call what computes. They compile
# in two thirds of the time.
function(ballast_light_optimisation target)
  if(NOT BALLAST_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  endif()
endfunction()
