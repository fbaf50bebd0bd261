# Headers of other projects, parsed once for many sources. A folder names its set:
#
#   set(GPUPOOL_PRECOMPILED messages)            for libraries
#   set(GPUPOOL_PRECOMPILED_TESTS message_tests)  for tests
#
# Targets in that folder and below use it. Sources include what they use all the
# same: ./dev lint compiles them without these.

# gpupool_precompile(NAME [PIE] [HEADERS ...] [USES ...])
#   PIE      for executables; a set fits either these or libraries
#   HEADERS  more than those of the standard library and of Abseil
#   USES     the libraries of HEADERS
function(gpupool_precompile name)
  cmake_parse_arguments(arg "PIE" "" "HEADERS;USES" ${ARGN})
  set(headers
      <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <filesystem> <fstream>
      <functional> <limits> <map> <memory> <optional> <set> <sstream> <string>
      <thread> <utility> <variant> <vector>
      <absl/container/btree_map.h> <absl/container/btree_set.h>
      <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h>
      <absl/status/statusor.h> <absl/strings/numbers.h> <absl/strings/str_cat.h>
      <absl/strings/str_format.h> <absl/strings/str_join.h>
      <absl/strings/str_split.h> <absl/synchronization/mutex.h>
      <absl/time/clock.h> <absl/time/time.h> <absl/types/span.h> ${arg_HEADERS})
  set(source ${CMAKE_BINARY_DIR}/precompiled/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "int main() { return 0; }\n")
  if(arg_PIE)
    add_executable(gpupool_precompiled_${name} EXCLUDE_FROM_ALL ${source})
    set_target_properties(gpupool_precompiled_${name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/precompiled)
  else()
    add_library(gpupool_precompiled_${name} STATIC EXCLUDE_FROM_ALL ${source})
  endif()
  target_link_libraries(gpupool_precompiled_${name} PRIVATE
    absl::btree absl::flat_hash_map absl::statusor absl::str_format absl::strings
    absl::synchronization absl::time absl::span ${arg_USES})
  target_precompile_headers(gpupool_precompiled_${name} PRIVATE ${headers})
  # g++ writes other bytes every time. ccache hashes this in their place.
  string(SHA256 sum "${CMAKE_CXX_COMPILER_VERSION} ${absl_VERSION} ${Protobuf_VERSION}
         ${gRPC_VERSION} ${CLI11_VERSION} ${GTest_VERSION} ${headers}")
  set(folder ${CMAKE_BINARY_DIR}/CMakeFiles/gpupool_precompiled_${name}.dir)
  file(CONFIGURE OUTPUT ${folder}/cmake_pch.hxx.gch.sum CONTENT "${sum}")
endfunction()

# gpupool_use_precompiled(TARGET SET): an empty SET is none.
function(gpupool_use_precompiled target set)
  if(NOT set)
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM gpupool_precompiled_${set})
  # g++ 12 and 14 warn falsely of copies and sums of strings where <string> is
  # precompiled. Tests have many of those; products keep the warnings.
  if(set MATCHES tests AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-restrict
                           -Wno-stringop-overflow)
  endif()
endfunction()

set(protobuf
    <google/protobuf/generated_message_util.h> <google/protobuf/map_field_inl.h>
    <google/protobuf/message.h> <google/protobuf/repeated_field.h>
    <google/protobuf/util/time_util.h>)
gpupool_precompile(basics)
# OpenMP is an option that a set and its users must share.
gpupool_precompile(kernels HEADERS <dnnl.hpp>
                   USES ${GPUPOOL_DNNL_LIBRARY} OpenMP::OpenMP_CXX)
gpupool_precompile(messages HEADERS ${protobuf} USES protobuf::libprotobuf)
gpupool_precompile(services HEADERS ${protobuf} <grpcpp/grpcpp.h>
                   USES protobuf::libprotobuf gRPC::grpc++)
gpupool_precompile(commands HEADERS ${protobuf} <CLI/App.hpp> <CLI/Validators.hpp>
                   USES protobuf::libprotobuf CLI11::CLI11)
if(GPUPOOL_TESTS)
  gpupool_precompile(tests PIE HEADERS <gmock/gmock.h> USES GTest::gmock)
  gpupool_precompile(message_tests PIE HEADERS ${protobuf} <gmock/gmock.h>
                     USES protobuf::libprotobuf GTest::gmock)
endif()
unset(protobuf)
