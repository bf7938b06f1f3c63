# For wheels: ballast_python without the two symbols of Debian 12 that are newer than manylinux_2_34 (glibc 2.34, GLIBCXX
# 3.4.29). Symbols decide what a wheel may be called; scripts/build_wheels has auditwheel look at all of them.

# std::condition_variable::wait is GLIBCXX_3.4.30 since GCC 12. The class is taken from the static library, and from there
# the compiler's shared one is used as before: fmt and Highway need it, and two whole ones in a process would each count
# the exceptions they throw.
execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libstdc++.a OUTPUT_STRIP_TRAILING_WHITESPACE
                OUTPUT_VARIABLE static_runtime COMMAND_ERROR_IS_FATAL ANY)
set(extracted "${CMAKE_CURRENT_BINARY_DIR}/condition_variable.o")
execute_process(COMMAND "${CMAKE_AR}" p "${static_runtime}" condition_variable.o OUTPUT_FILE "${extracted}"
                COMMAND_ERROR_IS_FATAL ANY)
target_link_libraries(ballast_python PRIVATE "${extracted}")

# hypot is GLIBC_2.35; the first one is in every C library.
target_sources(ballast_python PRIVATE manylinux/hypot.cc)
set_source_files_properties(manylinux/hypot.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)  # <cmath> declares it otherwise
