# Finds nvcc. Sets GPUPOOL_BUILD_CUDA; nothing else changes where there is none.
set(GPUPOOL_CUDA AUTO CACHE STRING "build the CUDA module: AUTO, ON or OFF")
set(GPUPOOL_CUDA_ARCHITECTURES AUTO CACHE STRING
    "GPUs of the CUDA module: AUTO (all), TESTS (one), or compute capabilities as in 80,90")
include(cuda_architectures)
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
  gpupool_list_architectures(known ${GPUPOOL_NVCC})
  gpupool_choose_architectures(GPUPOOL_CUDA_MACHINE_CODE
                               "${GPUPOOL_CUDA_ARCHITECTURES}" "${known}")
  gpupool_cuda_code(GPUPOOL_CUDA_CODE_FLAGS GPUPOOL_CUDA_PTX
                    "${GPUPOOL_CUDA_MACHINE_CODE}")
  string(JOIN ", " architectures ${GPUPOOL_CUDA_MACHINE_CODE})
  message(STATUS "CUDA module: yes (${GPUPOOL_NVCC}, machine code for "
                 "${architectures}, PTX for ${GPUPOOL_CUDA_PTX})")
else()
  message(STATUS "CUDA module: no")
endif()

# gpupool_cuda_objects(OUTPUT SOURCES ...)
# Compiles .cu files, given by absolute paths, and sets OUTPUT to their objects.
# By custom commands: the build has one place that knows nvcc's flags, and
# machines without nvcc need no language that CMake would look for.
function(gpupool_cuda_objects output)
  cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
  set(flags -std=c++20 -O3 --compress-mode=size -ccbin ${CMAKE_CXX_COMPILER}
      -Xcompiler=-fPIC,-Wall,-fvisibility=hidden -I${CMAKE_SOURCE_DIR})
  if(GPUPOOL_WERROR)
    list(APPEND flags -Werror=all-warnings)
  endif()
  list(APPEND flags ${GPUPOOL_CUDA_CODE_FLAGS})
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
