# What `cmake --install` puts down: headers, both libraries, the program, and the ways to find them.
include(CMakePackageConfigHelpers)

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/ballast")

set(public_headers "${PROJECT_SOURCE_DIR}/cmake/public_headers.txt")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${public_headers}")
file(STRINGS "${public_headers}" headers REGEX "^ballast/")
foreach(header IN LISTS headers)
  get_filename_component(folder "${header}" DIRECTORY)
  install(FILES "${PROJECT_SOURCE_DIR}/${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/${folder}")
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/include/ballast.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")

# Several export sets, so that a user of a shared library needs none of the development packages behind it.
foreach(kind shared static c)
  install(TARGETS ballast_${kind} EXPORT ballast_${kind}
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT ballast_${kind} NAMESPACE ballast:: FILE ballast-${kind}-targets.cmake
          DESTINATION "${package_folder}")
endforeach()
# What debuggers want is most of the archive, and `cmake --install --strip` leaves archives alone.
if(CMAKE_STRIP)
  install(CODE "execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-debug
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:ballast_static>\"
    COMMAND_ERROR_IS_FATAL ANY)")
endif()
if(TARGET ballast)
  install(TARGETS ballast RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

# Where the shells and man look. Optional: building the program alone does not make them.
if(TARGET ballast_shell_files)
  set(shell_files "${PROJECT_BINARY_DIR}/generated/shell")
  install(FILES "${shell_files}/ballast.bash" RENAME ballast OPTIONAL
          DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
  install(FILES "${shell_files}/_ballast" OPTIONAL DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
  install(FILES "${shell_files}/ballast.fish" OPTIONAL DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
  install(FILES "${shell_files}/ballast.1" OPTIONAL DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
endif()

# Where BLAKE3 is a library of its own, users of the static library link it too.
set(pc_blake3 "")
set(ballast_pkg_blake3 "")
if(BLAKE3_FOUND)
  set(pc_blake3 " -lblake3")
  set(ballast_pkg_blake3 "BLAKE3=libblake3")
endif()

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/ballastConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/generated/ballastConfig.cmake" INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/ballastConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)  # as the ABI is promised
install(FILES "${PROJECT_BINARY_DIR}/generated/ballastConfig.cmake"
              "${PROJECT_BINARY_DIR}/generated/ballastConfigVersion.cmake"
        DESTINATION "${package_folder}")

# The pkg-config file finds its prefix from where it lies, so the tree can be moved.
file(RELATIVE_PATH pc_to_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
foreach(name ballast ballast-c)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in" "${PROJECT_BINARY_DIR}/generated/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/generated/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()

# The pages keep their places relative to each other, so that their links work.
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
              "${PROJECT_SOURCE_DIR}/CONTRIBUTING.md" "${PROJECT_SOURCE_DIR}/SECURITY.md"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DOCDIR}" FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")

# The model that `ballast generate` runs when none is named.
if(TARGET ballast)
  install(FILES "${PROJECT_SOURCE_DIR}/models/default/model.gptrs" "${PROJECT_SOURCE_DIR}/models/default/tokenizer.json"
                "${PROJECT_SOURCE_DIR}/models/default/README.md"
          DESTINATION "${CMAKE_INSTALL_DATADIR}/ballast/models/default")
endif()
