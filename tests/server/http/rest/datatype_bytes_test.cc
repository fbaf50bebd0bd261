#include "server/http/rest/datatype_bytes.h"

#include <utility>

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

TEST(DatatypeBytesTest, EveryDatatypeOfOneSizeHasIt) {
  const std::pair<const char*, uint64_t> rows[] = {
      {"BOOL", 1},   {"UINT8", 1}, {"UINT16", 2}, {"UINT32", 4},
      {"UINT64", 8}, {"INT8", 1},  {"INT16", 2},  {"INT32", 4},
      {"INT64", 8},  {"FP16", 2},  {"BF16", 2},   {"FP32", 4},
      {"FP64", 8},   {"BYTES", 0}, {"fp32", 0},   {"", 0}};
  for (const auto& [name, bytes] : rows) {
    EXPECT_EQ(DatatypeBytes(name), bytes) << name;
  }
}

}  // namespace
}  // namespace gpupool::server
