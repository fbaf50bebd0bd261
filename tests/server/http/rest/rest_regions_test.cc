#include "server/http/rest/rest_regions.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

TEST(RestRegionsTest, ARegionHasAKeyAndASize) {
  const auto request = ReadRegionRequest(
      R"({"key":"/a","offset":7,"byte_size":18446744073709551615,"more":1})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->key(), "/a");
  EXPECT_EQ(request->offset(), 7u);
  EXPECT_EQ(request->byte_size(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(ReadRegionRequest(R"({"key":"/a","byte_size":1})")->offset(), 0u);
}

TEST(RestRegionsTest, WhatIsWrongIsNamed) {
  for (const auto& [body, words] :
       {std::pair("{", "JSON"), std::pair("[]", "object"),
        std::pair("{}", "'key'"), std::pair(R"({"key":7})", "'key'"),
        std::pair(R"({"key":"/a"})", "'byte_size'"),
        std::pair(R"({"key":"/a","byte_size":-1})", "'byte_size'"),
        std::pair(R"({"key":"/a","byte_size":1.5})", "'byte_size'"),
        std::pair(R"({"key":"/a","byte_size":18446744073709551616})",
                  "'byte_size'"),
        std::pair(R"({"key":"/a","byte_size":1,"offset":"0"})", "'offset'")}) {
    const auto request = ReadRegionRequest(body);
    EXPECT_TRUE(absl::IsInvalidArgument(request.status())) << body;
    EXPECT_THAT(std::string(request.status().message()), HasSubstr(words));
  }
}

TEST(RestRegionsTest, RegionsAreAListByName) {
  inference::SystemSharedMemoryStatusResponse response;
  EXPECT_EQ(RegionsJson(response), "[]");
  for (const char* name : {"b", "a"}) {
    auto& region = (*response.mutable_regions())[name];
    region.set_name(name);
    region.set_key("/k");
    region.set_offset(1);
    region.set_byte_size(std::numeric_limits<uint64_t>::max());
  }
  EXPECT_EQ(RegionsJson(response), R"([{"name":"a","key":"/k","offset":1,)"
                                   R"("byte_size":18446744073709551615},)"
                                   R"({"name":"b","key":"/k","offset":1,)"
                                   R"("byte_size":18446744073709551615}])");
}

}  // namespace
}  // namespace gpupool::server
