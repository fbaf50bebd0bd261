# gpupool_join_sources(TARGET): compiles the sources of a folder together, at most
# GPUPOOL_SOURCES_TOGETHER at a time, since most of the time goes into headers. So
# two sources of a folder may not give the same name in their unnamed namespaces
# (tests/tidy/unnamed_rules.py).
function(gpupool_join_sources target)
  if(NOT GPUPOOL_SOURCES_TOGETHER)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # g++ takes each joined source for a header and warns of its unnamed types.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    if(NOT source MATCHES "\\.cc$" OR IS_ABSOLUTE ${source})
      continue()
    endif()
    # Such a source is compiled once for each set of instructions, by itself.
    file(STRINGS ${source} own_targets REGEX "hwy/foreach_target.h")
    if(own_targets)
      continue()
    endif()
    get_filename_component(folder ${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER "${target}_${folder}" key)
    list(APPEND ${key} ${source})
    list(LENGTH ${key} count)
    math(EXPR part "(${count} - 1) / ${GPUPOOL_SOURCES_TOGETHER}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${key}_${part})
  endforeach()
endfunction()

# gpupool_library(NAME SOURCES ... [DEPS ...] [USES ...])
#   DEPS  libraries whose headers appear in this library's headers (PUBLIC)
#   USES  libraries used by its sources only (PRIVATE)
function(gpupool_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;USES" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
  target_link_libraries(${name} PUBLIC ${arg_DEPS} PRIVATE ${arg_USES})
  gpupool_use_precompiled(${name} "${GPUPOOL_PRECOMPILED}")
  gpupool_join_sources(${name})
endfunction()

# gpupool_tell_of_locks(NAME): ThreadSanitizer does not see the locks of the
# system's Abseil; a wrapper of each tells it.
function(gpupool_tell_of_locks name)
  if(NOT GPUPOOL_SANITIZE MATCHES thread OR NOT GPUPOOL_TESTS)
    return()
  endif()
  file(READ ${CMAKE_SOURCE_DIR}/tests/sanitize/abseil_for_threads.cc text)
  string(REGEX MATCHALL "_ZNK?4absl[A-Za-z0-9_]+" symbols "${text}")
  list(REMOVE_DUPLICATES symbols)
  list(TRANSFORM symbols PREPEND "-Wl,--wrap=")
  target_sources(${name} PRIVATE $<TARGET_OBJECTS:gpupool_abseil_for_threads>)
  target_link_options(${name} PRIVATE ${symbols})
endfunction()

# gpupool_binary(NAME SOURCES ... [USES ...])
function(gpupool_binary name)
  cmake_parse_arguments(arg "" "" "SOURCES;USES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_USES})
  gpupool_tell_of_locks(${name})
endfunction()

# gpupool_test(NAME LABEL unit|sim|conformance|e2e|fault|gpu SOURCES ...
#              [USES ...] [TIMEOUT seconds] [ENVIRONMENT k=v ...]
#              [NEEDS binaries])
# One executable per folder; every test in it is a CTest entry of its own.
function(gpupool_test name)
  cmake_parse_arguments(arg "" "LABEL;TIMEOUT" "SOURCES;USES;NEEDS;ENVIRONMENT"
                        ${ARGN})
  if(NOT arg_TIMEOUT)
    # Twice what a test waits for anything (tests/wait_until.h).
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_USES} gpupool_test_paths
                        GTest::gmock GTest::gtest_main)
  gpupool_use_precompiled(${name} "${GPUPOOL_PRECOMPILED_TESTS}")
  gpupool_join_sources(${name})
  gpupool_tell_of_locks(${name})
  if(arg_NEEDS)
    add_dependencies(${name} ${arg_NEEDS})
  endif()
  include(GoogleTest)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT}
               ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()

# Adds every direct subfolder that has a CMakeLists.txt.
function(gpupool_add_folders)
  file(GLOB lists CONFIGURE_DEPENDS
       ${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt)
  foreach(list ${lists})
    get_filename_component(folder ${list} DIRECTORY)
    add_subdirectory(${folder})
  endforeach()
endfunction()

# gpupool_python_test(NAME LABEL l SCRIPT file [ARGUMENTS ...] [TIMEOUT s])
# Runs with the system's Python, to which Debian's python3-* packages belong.
function(gpupool_python_test name)
  cmake_parse_arguments(arg "" "LABEL;SCRIPT;TIMEOUT" "ARGUMENTS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 240)
  endif()
  add_test(NAME ${name} COMMAND /usr/bin/python3
           ${CMAKE_CURRENT_SOURCE_DIR}/${arg_SCRIPT} ${arg_ARGUMENTS})
  set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL}
    TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;GPUPOOL_INSIDE_TEST=1")
endfunction()
