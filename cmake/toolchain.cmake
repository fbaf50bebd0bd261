# Compiler settings that hold for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

add_compile_options(-Wall -Wextra -Wno-missing-field-initializers -pthread)
if(GPUPOOL_WERROR)
  add_compile_options(-Werror)
endif()
if(GPUPOOL_SANITIZE)
  # Quick enough to run, lines in the reports, and no report that passes.
  add_compile_options(-fsanitize=${GPUPOOL_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all -O1 -g1)
  add_link_options(-fsanitize=${GPUPOOL_SANITIZE})
endif()

find_program(GPUPOOL_CCACHE ccache)
if(GPUPOOL_CCACHE)
  # Paths are rewritten relative to the source so that every build folder and
  # every clone of the same layout shares one cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_PCH_EXTSUM=1 ${GPUPOOL_CCACHE})
endif()
find_program(GPUPOOL_MOLD mold)
if(GPUPOOL_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
# A bundled binary finds its libraries in ../lib. DT_RPATH (old tags) also
# holds for the libraries' own dependencies.
set(CMAKE_BUILD_RPATH "$ORIGIN/../lib")
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
add_link_options(-Wl,--disable-new-dtags)
