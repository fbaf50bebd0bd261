# Which GPUs the CUDA module is compiled for.

# One of each kind that NVIDIA's driver 580 runs on; docs/gpu_status.md says
# which cards they are.
set(GPUPOOL_ALL_CUDA_ARCHITECTURES 75 80 86 89 90 100 120)
# What `./dev test` compiles in a fresh folder: tests without a GPU need no more.
set(GPUPOOL_TESTS_CUDA_ARCHITECTURES 90)

# gpupool_list_architectures(OUTPUT NVCC)
# The compute capabilities that this nvcc compiles for, ascending.
function(gpupool_list_architectures output nvcc)
  execute_process(COMMAND ${nvcc} --list-gpu-arch OUTPUT_VARIABLE listed
                  ERROR_VARIABLE error RESULT_VARIABLE result)
  string(REGEX MATCHALL "compute_[0-9]+" names "${listed}")
  list(TRANSFORM names REPLACE "compute_" "")
  list(REMOVE_DUPLICATES names)
  list(SORT names COMPARE NATURAL)
  if(NOT result EQUAL 0 OR NOT names)
    message(FATAL_ERROR "${nvcc} --list-gpu-arch lists no architecture: "
                        "${listed}${error}")
  endif()
  set(${output} ${names} PARENT_SCOPE)
endfunction()

# gpupool_choose_architectures(OUTPUT ASKED KNOWN)
# ASKED is AUTO, TESTS or a list, separated by ; or , or spaces. Of AUTO those
# that nvcc does not know are left out, with a message; a list must be known
# wholly.
function(gpupool_choose_architectures output asked known)
  string(JOIN ", " all ${known})
  if(asked STREQUAL "AUTO")
    set(chosen ${GPUPOOL_ALL_CUDA_ARCHITECTURES})
    set(unknown ${chosen})
    list(REMOVE_ITEM unknown ${known})
    if(unknown)
      list(REMOVE_ITEM chosen ${unknown})
      string(JOIN ", " left_out ${unknown})
      message(STATUS "CUDA module: without ${left_out}, which this nvcc does "
                     "not know (it knows ${all})")
    endif()
  else()
    set(chosen "${asked}")
    if(asked STREQUAL "TESTS")
      set(chosen ${GPUPOOL_TESTS_CUDA_ARCHITECTURES})
    endif()
    string(REGEX REPLACE "[;, \t]+" ";" chosen "${chosen}")
    list(REMOVE_ITEM chosen "")
    list(REMOVE_DUPLICATES chosen)
    list(SORT chosen COMPARE NATURAL)
    foreach(architecture ${chosen})
      if(NOT architecture IN_LIST known)
        message(FATAL_ERROR
          "GPUPOOL_CUDA_ARCHITECTURES is \"${asked}\"; \"${architecture}\" is "
          "no architecture of this nvcc. Write AUTO for all GPUs, or compute "
          "capabilities without the dot, such as 80,90, out of: ${all}")
      endif()
    endforeach()
  endif()
  if(NOT chosen)
    message(FATAL_ERROR
      "GPUPOOL_CUDA_ARCHITECTURES is \"${asked}\", which chooses nothing. "
      "Write AUTO for all GPUs, or compute capabilities without the dot, such "
      "as 80,90, out of: ${all}")
  endif()
  set(${output} ${chosen} PARENT_SCOPE)
endfunction()

# gpupool_cuda_code(FLAGS PTX ARCHITECTURES)
# The flags of nvcc for machine code of each architecture, and for which one PTX
# is kept beside it, so that later GPUs run the module too.
#
# Sources know two dialects only: before and from compute capability 8.0, where
# conversions to bfloat16 are instructions (portable/numbers.h). So PTX is made
# for the first architecture of each dialect, and its machine code for all of
# them comes from that. The front end, most of the cost, runs twice and not
# seven times; the PTX of 8.0 serves every GPU since.
function(gpupool_cuda_code flags ptx architectures)
  set(result "")
  set(early ${architectures})
  list(FILTER early INCLUDE REGEX "^[1-7][0-9]$")
  set(late ${architectures})
  if(early)
    list(REMOVE_ITEM late ${early})
  endif()
  foreach(architecture ${early})
    set(kept ${architecture})
    set(codes "sm_${architecture}")
    if(NOT late)
      string(APPEND codes ",compute_${architecture}")
    endif()
    list(APPEND result
         "-gencode=arch=compute_${architecture},code=[${codes}]")
  endforeach()
  if(late)
    list(GET late 0 kept)
    list(TRANSFORM late PREPEND sm_ OUTPUT_VARIABLE codes)
    string(JOIN "," codes ${codes} compute_${kept})
    list(APPEND result "-gencode=arch=compute_${kept},code=[${codes}]")
  endif()
  set(${flags} ${result} PARENT_SCOPE)
  set(${ptx} ${kept} PARENT_SCOPE)
endfunction()
