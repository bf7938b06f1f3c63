# cmake -D VERSION=... -D SOURCE_DIR=... -D OUTPUT=... -P WriteVersion.cmake
set(BUILD_ID "")
find_program(GIT git)
if(GIT AND EXISTS "${SOURCE_DIR}/.git")
  execute_process(COMMAND "${GIT}" describe --always --dirty --abbrev=12 WORKING_DIRECTORY "${SOURCE_DIR}"
                  OUTPUT_VARIABLE BUILD_ID OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
configure_file("${CMAKE_CURRENT_LIST_DIR}/version.cc.in" "${OUTPUT}" @ONLY)
