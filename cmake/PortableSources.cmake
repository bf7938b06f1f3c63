# What the portable layers are compiled from: for ballast_core (cmake/BallastCore.cmake) and ballast_embedded
# (bindings/core). No library of the target's distribution is needed. fmt is used as headers (libfmt-dev). zlib and BLAKE3
# are compiled from C sources, which are the same for every target: zlib's are Debian's, which scripts/fetch_zlib_source
# puts into the cache; BLAKE3's are those of librust-blake3-dev. BALLAST_FMT_INCLUDE, BALLAST_ZLIB_SOURCES and
# BALLAST_BLAKE3_SOURCES name other folders. Sets
#   portable_sources      base, tensor and formats
#   portable_foreign      C files of zlib and BLAKE3
#   portable_definitions  what BLAKE3 takes to be without instructions of one processor
get_filename_component(portable_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)

set(portable_cache "$ENV{BALLAST_CACHE}")
if(NOT portable_cache AND DEFINED ENV{XDG_CACHE_HOME})
  set(portable_cache "$ENV{XDG_CACHE_HOME}/ballast")
elseif(NOT portable_cache)
  set(portable_cache "$ENV{HOME}/.cache/ballast")
endif()
file(GLOB portable_blake3 "/usr/share/cargo/registry/blake3-*/c")
find_path(BALLAST_FMT_INCLUDE fmt/format-inl.h PATHS /usr/include NO_CMAKE_FIND_ROOT_PATH DOC "Folder with fmt's headers")
find_path(BALLAST_ZLIB_SOURCES inflate.c PATHS "${portable_cache}/zlib-source" NO_CMAKE_FIND_ROOT_PATH
          DOC "Folder with zlib's C sources")
find_path(BALLAST_BLAKE3_SOURCES blake3_dispatch.c PATHS ${portable_blake3} NO_CMAKE_FIND_ROOT_PATH
          DOC "Folder with the official C sources of BLAKE3")
foreach(needed BALLAST_FMT_INCLUDE BALLAST_ZLIB_SOURCES BALLAST_BLAKE3_SOURCES)
  if(NOT ${needed})
    message(FATAL_ERROR "${needed} is not set, and what it should name was not found: cmake/PortableSources.cmake says "
                        "where it comes from")
  endif()
endforeach()

file(GLOB portable_sources CONFIGURE_DEPENDS "${portable_root}/ballast/base/*.cc" "${portable_root}/ballast/tensor/*.cc"
     "${portable_root}/ballast/formats/*.cc" "${portable_root}/ballast/formats/*/*.cc")
set(portable_foreign "")
foreach(name IN ITEMS blake3 blake3_dispatch blake3_portable)
  list(APPEND portable_foreign "${BALLAST_BLAKE3_SOURCES}/${name}.c")
endforeach()
foreach(name IN ITEMS adler32 crc32 deflate inffast inflate inftrees trees zutil)
  list(APPEND portable_foreign "${BALLAST_ZLIB_SOURCES}/${name}.c")
endforeach()
set(portable_definitions BLAKE3_NO_SSE2 BLAKE3_NO_SSE41 BLAKE3_NO_AVX2 BLAKE3_NO_AVX512 BLAKE3_USE_NEON=0)

# fmt's headers alone: the folder they are in also has those of this machine's C library.
function(link_fmt_headers folder)
  file(MAKE_DIRECTORY "${folder}")
  file(CREATE_LINK "${BALLAST_FMT_INCLUDE}/fmt" "${folder}/fmt" SYMBOLIC)
endfunction()
