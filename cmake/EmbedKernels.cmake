# Writes OUTPUT, a C++ source with the texts of FOLDER/*.cl as the table that ballast/backends/opencl/sources.h describes.
# cmake -D FOLDER=... -D OUTPUT=... -P EmbedKernels.cmake
file(GLOB files RELATIVE "${FOLDER}" "${FOLDER}/*.cl")
list(SORT files)
set(arrays "")
set(rows "")
foreach(name IN LISTS files)
  string(REGEX REPLACE "\\.cl$" "" program "${name}")
  file(READ "${FOLDER}/${name}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "((0x..,){24})" "\\1\n" bytes "${bytes}")
  string(APPEND arrays "constexpr char k_${program}[] = {\n${bytes}};\n")
  string(APPEND rows "    {\"${program}\", {k_${program}, sizeof(k_${program})}},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Made by cmake/EmbedKernels.cmake.\n#include \"ballast/backends/opencl/sources.h\"\n\n"
  "namespace ballast::opencl {\n\nnamespace {\n\n${arrays}\nconstexpr KernelSource kOpenClSources[] = {\n${rows}};\n\n}  // namespace\n\n"
  "std::span<const KernelSource> kernel_sources() { return kOpenClSources; }\n\n}  // namespace ballast::opencl\n")
