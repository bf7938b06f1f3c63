# Debian's clang for WebAssembly, with libc++ and wasi-libc (scripts/bootstrap --web).
set(CMAKE_SYSTEM_NAME Generic)  # which CMake before 3.31 knows nothing more particular for
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(BALLAST_WASM_CLANG "22" CACHE STRING "Version of clang, lld and llvm")
set(CMAKE_C_COMPILER clang-${BALLAST_WASM_CLANG})
set(CMAKE_CXX_COMPILER clang++-${BALLAST_WASM_CLANG})
set(CMAKE_AR llvm-ar-${BALLAST_WASM_CLANG})
set(CMAKE_RANLIB llvm-ranlib-${BALLAST_WASM_CLANG})
# wasm32-wasip1 is what clang would rather be told, but Debian's headers are only in the folder of this name.
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
