# version_source: what defines the version, and the commit where that can be told. Made anew at each build, written only
# when it changed.
set(version_source "${PROJECT_BINARY_DIR}/generated/version.cc")
add_custom_target(ballast_version
  COMMAND "${CMAKE_COMMAND}" -D "VERSION=${PROJECT_VERSION}" -D "SOURCE_DIR=${PROJECT_SOURCE_DIR}"
          -D "OUTPUT=${version_source}" -P "${PROJECT_SOURCE_DIR}/cmake/WriteVersion.cmake"
  BYPRODUCTS "${version_source}"
  COMMENT "Checking the version")
