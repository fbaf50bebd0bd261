# Finds nvcc. Sets GPUPOOL_BUILD_CUDA; nothing else changes where there is none.
set(GPUPOOL_CUDA AUTO CACHE STRING "build the CUDA module: AUTO, ON or OFF")
set(GPUPOOL_CUDA_ARCHITECTURES AUTO CACHE STRING
    "GPUs of the CUDA module: AUTO (all), TESTS (one), or compute capabilities as in 80,90")
include(${CMAKE_CURRENT_LIST_DIR}/cuda_architectures.cmake)
set(GPUPOOL_BUILD_CUDA OFF)

# gpupool_find_cuda_obstacle(OUTPUT): why the compiler GPUPOOL_NVCC cannot build
# the module; empty when nothing is known.
function(gpupool_find_cuda_obstacle output)
  set(${output} "" PARENT_SCOPE)
  if(NOT GPUPOOL_NVCC)
    set(${output} "there is no nvcc in CUDA_HOME/bin, /usr/local/cuda/bin or PATH"
        PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${GPUPOOL_NVCC} --version OUTPUT_VARIABLE text
                  ERROR_QUIET)
  if(NOT text MATCHES "release ([0-9]+)[.]" OR CMAKE_MATCH_1 LESS 13)
    string(REGEX MATCH "release [0-9.]+" release "${text}")
    set(${output} "${GPUPOOL_NVCC} (${release}) is not of a CUDA 13 toolkit"
        PARENT_SCOPE)
    return()
  endif()
  foreach(header cublasLt.h cudnn_graph.h cupti.h nccl.h)
    find_path(found ${header} HINTS ${GPUPOOL_CUDA_HOME}/include NO_CACHE)
    if(NOT found)
      set(${output} "nvcc is there, but no ${header} in ${GPUPOOL_CUDA_HOME}/include or where the system keeps headers (cuDNN: libcudnn9-dev-cuda-13, NCCL: libnccl-dev)"
          PARENT_SCOPE)
      return()
    endif()
    unset(found)
  endforeach()
endfunction()

# tools/dev/cuda.sh looks in the same order. CMake looks again at each run until
# nvcc is found.
set(hints /usr/local/cuda/bin)
if(DEFINED ENV{CUDA_HOME})
  list(PREPEND hints $ENV{CUDA_HOME}/bin)
endif()
# ./dev reads the state: "yes", "off", or "no: " and the reason.
set(state off)
if(NOT GPUPOOL_CUDA STREQUAL "OFF" AND NOT GPUPOOL_SANITIZE)
  find_program(GPUPOOL_NVCC nvcc HINTS ${hints})
  if(GPUPOOL_NVCC)
    get_filename_component(GPUPOOL_CUDA_HOME ${GPUPOOL_NVCC} REALPATH)
    get_filename_component(GPUPOOL_CUDA_HOME ${GPUPOOL_CUDA_HOME}/../.. ABSOLUTE)
  endif()
  gpupool_find_cuda_obstacle(obstacle)
  if(NOT obstacle)
    set(GPUPOOL_BUILD_CUDA ON)
    set(state yes)
  elseif(GPUPOOL_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GPUPOOL_CUDA is ON, but ${obstacle}")
  else()
    set(state "no: ${obstacle}")
  endif()
endif()
file(WRITE ${CMAKE_BINARY_DIR}/cuda_module.txt "${state}\n")
if(GPUPOOL_BUILD_CUDA)
  gpupool_list_architectures(known ${GPUPOOL_NVCC})
  gpupool_choose_architectures(GPUPOOL_CUDA_MACHINE_CODE
                               "${GPUPOOL_CUDA_ARCHITECTURES}" "${known}")
  gpupool_cuda_code(GPUPOOL_CUDA_CODE_FLAGS GPUPOOL_CUDA_PTX
                    "${GPUPOOL_CUDA_MACHINE_CODE}")
  string(JOIN ", " architectures ${GPUPOOL_CUDA_MACHINE_CODE})
  message(STATUS "CUDA module: yes (${GPUPOOL_NVCC}, machine code for "
                 "${architectures}, PTX for ${GPUPOOL_CUDA_PTX})")
else()
  message(STATUS "CUDA module: ${state}")
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
