# bench/*.cc -> bin/ballast_bench
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.cc")
find_package(benchmark QUIET)
if(sources AND benchmark_FOUND)
  add_executable(ballast_bench ${sources})
  target_link_libraries(ballast_bench PRIVATE ballast_options ballast::static fmt::fmt benchmark::benchmark_main)
endif()
