# bindings/c/*.cc -> libballast_c.so.1, the C interface (include/ballast.h). It holds the library, so that its users need
# nothing of C++, and exports nothing but the functions of the header (bindings/c/exports.txt, which a test compares).
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bindings/c/*.cc")
add_library(ballast_c_objects OBJECT ${sources})
ballast_unity(ballast_c_objects)
ballast_light_optimisation(ballast_c_objects)
target_include_directories(ballast_c_objects PUBLIC "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(ballast_c_objects PRIVATE ballast_options ballast::static)

add_library(ballast_c SHARED $<TARGET_OBJECTS:ballast_c_objects>)
target_include_directories(ballast_c INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(ballast_c PRIVATE ballast::static)
# The version of the ABI, not that of the library: BALLAST_ABI_VERSION of the header.
set_target_properties(ballast_c PROPERTIES EXPORT_NAME c VERSION 1.0.0 SOVERSION 1)
add_library(ballast::c ALIAS ballast_c)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(map "${PROJECT_SOURCE_DIR}/bindings/c/exports.map")
  target_link_options(ballast_c PRIVATE "LINKER:--version-script=${map}")
  set_target_properties(ballast_c PROPERTIES LINK_DEPENDS "${map}")
  if(NOT BALLAST_SANITIZE)  # sanitizers are found in the program only
    target_link_options(ballast_c PRIVATE LINKER:--no-undefined)
  endif()
endif()
if(BALLAST_SANITIZE)
  set_target_properties(ballast_c PROPERTIES EXCLUDE_FROM_ALL ON)  # tests link the objects
endif()
