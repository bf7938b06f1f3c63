# bench/*.cc -> bin/ballast_bench, which scripts/bench runs beside the peers
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.cc")
if(sources)
  add_executable(ballast_bench ${sources})
  target_link_libraries(ballast_bench PRIVATE ballast_options ballast::static fmt::fmt)
endif()
