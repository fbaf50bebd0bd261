#include "server/http/rest/datatype_bytes.h"

#include <utility>

namespace gpupool::server {

uint64_t DatatypeBytes(absl::string_view datatype) {
  static constexpr std::pair<absl::string_view, uint64_t> kDatatypes[] = {
      {"BOOL", 1}, {"UINT8", 1}, {"UINT16", 2}, {"UINT32", 4}, {"UINT64", 8},
      {"INT8", 1}, {"INT16", 2}, {"INT32", 4},  {"INT64", 8},  {"FP16", 2},
      {"BF16", 2}, {"FP32", 4},  {"FP64", 8}};
  for (const auto& [name, bytes] : kDatatypes) {
    if (name == datatype) return bytes;
  }
  return 0;
}

}  // namespace gpupool::server
