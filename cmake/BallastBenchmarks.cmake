# bench/storage_bench.cc -> bin/ballast_bench, which scripts/bench runs beside the peers; the others under their names:
# kernel_bench and training_kernels_bench for the kernels of the backend `cpu`, machine_limits, model_worker,
# tokenizer_bench and training_bench for scripts/bench_peers, checkpoint_bench for what a checkpoint costs, mask_bench for
# scripts/bench_structured.
add_executable(ballast_bench "${PROJECT_SOURCE_DIR}/bench/storage_bench.cc")
target_link_libraries(ballast_bench PRIVATE ballast_options ballast::static fmt::fmt)
foreach(name kernel_bench training_kernels_bench machine_limits model_worker tokenizer_bench training_bench
             checkpoint_bench mask_bench)
  add_executable(${name} "${PROJECT_SOURCE_DIR}/bench/${name}.cc")
  target_link_libraries(${name} PRIVATE ballast_options ballast::static fmt::fmt)
endforeach()
