# Finds nvcc. Sets GPUPOOL_BUILD_CUDA; nothing else changes where there is none.
set(GPUPOOL_CUDA AUTO CACHE STRING "build the CUDA module: AUTO, ON or OFF")
set(GPUPOOL_CUDA_ARCHITECTURES 90 CACHE STRING
    "compute capabilities without the dot, separated by ;")
set(GPUPOOL_BUILD_CUDA OFF)
if(NOT GPUPOOL_CUDA STREQUAL "OFF" AND NOT GPUPOOL_SANITIZE)
  find_program(GPUPOOL_NVCC nvcc HINTS /usr/local/cuda/bin $ENV{CUDA_HOME}/bin)
  if(GPUPOOL_NVCC)
    set(GPUPOOL_BUILD_CUDA ON)
  elseif(GPUPOOL_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GPUPOOL_CUDA is ON, but there is no nvcc in PATH or "
                        "in /usr/local/cuda/bin; install the CUDA toolkit 13")
  endif()
endif()
if(GPUPOOL_BUILD_CUDA)
  get_filename_component(GPUPOOL_CUDA_HOME ${GPUPOOL_NVCC} REALPATH)
  get_filename_component(GPUPOOL_CUDA_HOME ${GPUPOOL_CUDA_HOME}/../.. ABSOLUTE)
  message(STATUS "CUDA module: yes (${GPUPOOL_NVCC}, architectures "
                 "${GPUPOOL_CUDA_ARCHITECTURES})")
else()
  message(STATUS "CUDA module: no")
endif()

# gpupool_cuda_objects(OUTPUT SOURCES ...)
# Compiles .cu files, given by absolute paths, and sets OUTPUT to their objects.
# By custom commands: the build has one place that knows nvcc's flags, and
# machines without nvcc need no language that CMake would look for.
function(gpupool_cuda_objects output)
  cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
  set(flags -std=c++20 -O3 -ccbin ${CMAKE_CXX_COMPILER}
      -Xcompiler=-fPIC,-Wall,-fvisibility=hidden -I${CMAKE_SOURCE_DIR})
  if(GPUPOOL_WERROR)
    list(APPEND flags -Werror=all-warnings)
  endif()
  foreach(architecture ${GPUPOOL_CUDA_ARCHITECTURES})
    list(APPEND flags
         -gencode=arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  set(launcher "")
  if(GPUPOOL_CCACHE)
    set(launcher ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  set(objects "")
  foreach(source ${arg_SOURCES})
    get_filename_component(name ${source} NAME)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${launcher} ${GPUPOOL_NVCC} ${flags} -MD -MF ${object}.d -MT
              ${object} -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d VERBATIM
      COMMENT "Building CUDA object ${name}.o")
    list(APPEND objects ${object})
  endforeach()
  set(${output} ${objects} PARENT_SCOPE)
endfunction()
