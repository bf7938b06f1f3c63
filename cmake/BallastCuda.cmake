# Kernels for NVIDIA's GPUs: ballast/backends/cuda/kernels/*.cu, compiled by nvcc to machine code for each architecture,
# packed, and put into the library as data. Nothing of CUDA is linked or needed at run time but the driver. Without nvcc
# the library has no kernels and says so; everything else of the backend is compiled all the same.
set(BALLAST_CUDA AUTO CACHE STRING "Kernels for NVIDIA GPUs: AUTO (where nvcc is found), ON (or fail), OFF")
set_property(CACHE BALLAST_CUDA PROPERTY STRINGS AUTO ON OFF)
# Machine code runs on later minor versions of the same major one; 90a is Hopper with all that it has. GPUs before and
# between get the PTX of the first, which their driver compiles.
set(BALLAST_CUDA_ARCHITECTURES "80-ptx;80;86;89;90a;100;120" CACHE STRING "GPUs to compile kernels for; fewer compile sooner")

set(kernel_folder "${PROJECT_SOURCE_DIR}/ballast/backends/cuda/kernels")
set(kernel_output "${PROJECT_BINARY_DIR}/generated/cuda")
set(BALLAST_CUDA_SOURCES "${PROJECT_SOURCE_DIR}/cmake/no_kernel_image.cc")

# scripts/bootstrap --cuda puts a pinned nvcc there.
function(ballast_find_nvcc)
  set(cache "$ENV{BALLAST_CACHE}")
  if(NOT cache AND DEFINED ENV{XDG_CACHE_HOME})
    set(cache "$ENV{XDG_CACHE_HOME}/ballast")
  elseif(NOT cache)
    set(cache "$ENV{HOME}/.cache/ballast")
  endif()
  file(GLOB folders "${cache}/cuda-13.0/lib/python3*/site-packages/nvidia/cu13/bin")
  find_program(BALLAST_NVCC nvcc HINTS ${folders} PATHS /usr/local/cuda/bin DOC "NVIDIA's compiler, of CUDA 13")
  mark_as_advanced(BALLAST_NVCC)
  set(problem "")
  if(NOT BALLAST_NVCC)
    set(problem "nvcc was not found: scripts/bootstrap --cuda installs it without root, or set BALLAST_NVCC")
  else()
    execute_process(COMMAND "${BALLAST_NVCC}" --version OUTPUT_VARIABLE text RESULT_VARIABLE failed ERROR_QUIET)
    if(failed OR NOT text MATCHES "release 13\\.")
      set(problem "${BALLAST_NVCC} is not of CUDA 13: scripts/bootstrap --cuda installs one that is")
    endif()
  endif()
  find_package(Python3 COMPONENTS Interpreter QUIET)
  if(NOT problem AND NOT Python3_FOUND)
    set(problem "packing kernels takes python3")
  endif()
  set(nvcc_problem "${problem}" PARENT_SCOPE)
  set(python "${Python3_EXECUTABLE}" PARENT_SCOPE)
endfunction()

# One command per file and architecture, so that an edit compiles one file.
function(ballast_compile_kernels module)
  set(compiled ${BALLAST_CUDA_COMPILED})
  foreach(architecture IN LISTS BALLAST_CUDA_ARCHITECTURES)
    if(architecture MATCHES "^([0-9]+)-ptx$")
      set(options -ptx "-arch=compute_${CMAKE_MATCH_1}")
      set(output "${kernel_output}/${module}.compute_${CMAKE_MATCH_1}.ptx")
    else()
      set(options -cubin -gencode "arch=compute_${architecture},code=sm_${architecture}")
      set(output "${kernel_output}/${module}.sm_${architecture}.cubin")
    endif()
    # A multiply-add is fused where the code says so and nowhere else, as in the rest of the library.
    add_custom_command(OUTPUT "${output}"
      COMMAND "${BALLAST_NVCC}" ${options} -std=c++17 -O3 -fmad=false -I "${PROJECT_SOURCE_DIR}"
              -ccbin "${CMAKE_CXX_COMPILER}" -allow-unsupported-compiler -MD -MF "${output}.d"
              -o "${output}" "${kernel_folder}/${module}.cu"
      DEPENDS "${kernel_folder}/${module}.cu" "${BALLAST_NVCC}"
      DEPFILE "${output}.d"
      COMMENT "Compiling kernels ${module} for ${architecture}" VERBATIM)
    list(APPEND compiled "${output}")
  endforeach()
  set(BALLAST_CUDA_COMPILED "${compiled}" PARENT_SCOPE)
endfunction()

if(BALLAST_CUDA STREQUAL "AUTO" AND BALLAST_SANITIZE)
  set(nvcc_problem "builds with sanitizers leave kernels out")
elseif(BALLAST_CUDA)
  ballast_find_nvcc()
else()
  set(nvcc_problem "BALLAST_CUDA is OFF")
endif()
if(nvcc_problem AND BALLAST_CUDA AND NOT BALLAST_CUDA STREQUAL "AUTO")
  message(FATAL_ERROR "BALLAST_CUDA is ON, but ${nvcc_problem}")
endif()
if(nvcc_problem)
  message(STATUS "No kernels for NVIDIA GPUs: ${nvcc_problem}")
else()
  message(STATUS "Kernels for NVIDIA GPUs: ${BALLAST_CUDA_ARCHITECTURES}, by ${BALLAST_NVCC}")
  file(MAKE_DIRECTORY "${kernel_output}")
  set(BALLAST_CUDA_COMPILED "")
  file(GLOB kernel_files CONFIGURE_DEPENDS "${kernel_folder}/*.cu")
  foreach(file IN LISTS kernel_files)
    get_filename_component(module "${file}" NAME_WE)
    ballast_compile_kernels("${module}")
  endforeach()
  get_filename_component(nvcc_folder "${BALLAST_NVCC}" REALPATH)
  get_filename_component(nvcc_folder "${nvcc_folder}" DIRECTORY)
  set(names "${PROJECT_SOURCE_DIR}/ballast/backends/cuda/kernel_names.h")
  add_custom_command(
    OUTPUT "${kernel_output}/kernel_image.cc" "${kernel_output}/kernel_image.S"
    COMMAND "${python}" "${PROJECT_SOURCE_DIR}/cmake/pack_kernels.py" --names "${names}"
            --fatbinary "${nvcc_folder}/fatbinary" --out "${kernel_output}" ${BALLAST_CUDA_COMPILED}
    DEPENDS ${BALLAST_CUDA_COMPILED} "${names}" "${PROJECT_SOURCE_DIR}/cmake/pack_kernels.py"
    COMMENT "Packing kernels" VERBATIM)
  set(BALLAST_CUDA_SOURCES "${kernel_output}/kernel_image.cc" "${kernel_output}/kernel_image.S")
endif()
