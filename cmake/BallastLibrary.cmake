# One object target per layer folder; together they are libballast.a and libballast.so.

# Bottom first. A folder without .cc files has no target.
set(BALLAST_LAYERS base io tensor formats device params ops backends archive edit nn models engine text exchange training runtime serve)

# What each layer may use from outside; scripts/check_layers says in which files.
set(BALLAST_USES_base ballast_blake3 fmt::fmt)
set(BALLAST_USES_io fmt::fmt Threads::Threads)
set(BALLAST_USES_tensor fmt::fmt)
set(BALLAST_USES_formats fmt::fmt ZLIB::ZLIB)
set(BALLAST_USES_device fmt::fmt Threads::Threads)
set(BALLAST_USES_params fmt::fmt Threads::Threads)
set(BALLAST_USES_ops fmt::fmt Threads::Threads)
set(BALLAST_USES_backends fmt::fmt Threads::Threads PkgConfig::HWY ${CMAKE_DL_LIBS})
set(BALLAST_USES_archive fmt::fmt PkgConfig::PCRE2 OpenSSL::Crypto Threads::Threads)
set(BALLAST_USES_edit fmt::fmt)
set(BALLAST_USES_nn fmt::fmt)
set(BALLAST_USES_models fmt::fmt)
set(BALLAST_USES_engine fmt::fmt Threads::Threads)
set(BALLAST_USES_text fmt::fmt PkgConfig::UTF8PROC PkgConfig::PCRE2)
set(BALLAST_USES_exchange fmt::fmt)
set(BALLAST_USES_training fmt::fmt Threads::Threads ballast_toml11)
set(BALLAST_USES_runtime fmt::fmt Threads::Threads)
set(BALLAST_USES_serve fmt::fmt Threads::Threads)

if(CMAKE_SIZEOF_VOID_P EQUAL 4)
  add_compile_definitions(_FILE_OFFSET_BITS=64)  # files may be larger than addresses
endif()

include(BallastVersion)

set(objects ${BALLAST_BLAKE3_OBJECTS})
set(uses "")
foreach(layer IN LISTS BALLAST_LAYERS)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/ballast/${layer}/*.cc"
       "${PROJECT_SOURCE_DIR}/ballast/${layer}/*/*.cc")
  if(NOT sources)
    continue()
  endif()
  set(kernels ${sources})
  list(FILTER kernels INCLUDE REGEX "/backends/cpu/")  # Highway includes each of them again for every target
  set_source_files_properties(${kernels} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(BALLAST_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 ends with an internal error when it instruments this file for AVX-512; it packs weights and shares nothing.
    set(panel ${kernels})
    list(FILTER panel INCLUDE REGEX "/cpu/panel\\.cc$")
    set_source_files_properties(${panel} PROPERTIES COMPILE_OPTIONS -fno-sanitize=thread)
  endif()
  add_library(ballast_${layer} OBJECT ${sources})
  target_include_directories(ballast_${layer} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(ballast_${layer} PRIVATE ballast_options ${BALLAST_USES_${layer}})
  ballast_unity(ballast_${layer})
  list(APPEND objects $<TARGET_OBJECTS:ballast_${layer}>)
  list(APPEND uses ${BALLAST_USES_${layer}})
endforeach()
target_sources(ballast_base PRIVATE "${version_source}")
add_dependencies(ballast_base ballast_version)
target_sources(ballast_backends PRIVATE ${BALLAST_CUDA_SOURCES})
# Alone, so that with and without kernels all other units are the same: the Python module, built without, takes the objects
# of a build with kernels from ccache.
set_source_files_properties(${BALLAST_CUDA_SOURCES} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# Kernels in OpenCL C are compiled by the driver of whoever runs them, so the library has their texts.
set(opencl_folder "${PROJECT_SOURCE_DIR}/ballast/backends/opencl/kernels")
set(opencl_source "${PROJECT_BINARY_DIR}/generated/opencl_sources.cc")
file(GLOB opencl_files CONFIGURE_DEPENDS "${opencl_folder}/*.cl")
add_custom_command(
  OUTPUT "${opencl_source}"
  COMMAND "${CMAKE_COMMAND}" -D "FOLDER=${opencl_folder}" -D "OUTPUT=${opencl_source}"
          -P "${PROJECT_SOURCE_DIR}/cmake/EmbedKernels.cmake"
  DEPENDS ${opencl_files} "${PROJECT_SOURCE_DIR}/cmake/EmbedKernels.cmake"
  COMMENT "Embedding the OpenCL kernels"
  VERBATIM)
target_sources(ballast_backends PRIVATE "${opencl_source}")
set_source_files_properties("${opencl_source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# A multiply-add is fused where the code says so and nowhere else: results must not depend on the compiler's mood.
foreach(layer IN ITEMS tensor edit ops backends training)
  if(TARGET ballast_${layer})
    target_compile_options(ballast_${layer} PRIVATE -ffp-contract=off)
  endif()
endforeach()

# These only call what computes.
foreach(layer IN ITEMS nn models exchange training runtime serve)
  ballast_light_optimisation(ballast_${layer})
endforeach()

list(REMOVE_DUPLICATES uses)
# BLAKE3's objects are among ours, and where it is a library it is added below; toml11 is headers only.
list(REMOVE_ITEM uses ballast_blake3 ballast_toml11)
if(BLAKE3_FOUND)
  list(APPEND uses PkgConfig::BLAKE3)
endif()

foreach(kind static shared)
  string(TOUPPER ${kind} kind_upper)
  add_library(ballast_${kind} ${kind_upper} ${objects})
  target_compile_features(ballast_${kind} PUBLIC cxx_std_20)
  target_include_directories(ballast_${kind} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(ballast_${kind} PRIVATE ${uses})
  set_target_properties(ballast_${kind} PROPERTIES OUTPUT_NAME ballast)
endforeach()

# Symbols of the shared library are all visible: the C++ ABI is promised within a minor version only (hence the
# soname), errors travel as values so no type information must be hidden, and who wants a stable ABI has the C
# interface (BallastC.cmake).
set_target_properties(ballast_shared PROPERTIES
  EXPORT_NAME ballast VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set_target_properties(ballast_static PROPERTIES EXPORT_NAME static)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT BALLAST_SANITIZE)  # sanitizers are found in the program only
  target_link_options(ballast_shared PRIVATE LINKER:--no-undefined)
endif()
if(BALLAST_SANITIZE)
  set_target_properties(ballast_shared PROPERTIES EXCLUDE_FROM_ALL ON)  # tests link the static one
endif()
add_library(ballast::ballast ALIAS ballast_shared)
add_library(ballast::static ALIAS ballast_static)
