#include "server/http/port/request_target.h"

#include <utility>

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

TEST(ReadTargetTest, PathsAreDecodedAndQueriesAreNot) {
  const auto target = ReadTarget("/v2/models/a%20b/c?x=%20&y");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->path, "/v2/models/a b/c");
  EXPECT_EQ(target->query, "x=%20&y");
}

TEST(ReadTargetTest, WhatIsNoCodeStaysAsItIs) {
  for (const char* path : {"/a%", "/a%2", "/a%zz", "/a+b", "/%%"}) {
    EXPECT_EQ(ReadTarget(path)->path, path);
  }
  EXPECT_EQ(ReadTarget("/a%41%")->path, "/aA%");
  EXPECT_EQ(ReadTarget("/%41")->path, "/A");
}

TEST(ReadTargetTest, TheFormForProxiesIsRead) {
  EXPECT_EQ(ReadTarget("http://h:8000/v2?a")->path, "/v2");
  EXPECT_EQ(ReadTarget("HTTPS://h")->path, "/");
  EXPECT_EQ(ReadTarget("http://h?a")->path, "/");
  EXPECT_EQ(ReadTarget("*")->path, "*");
  EXPECT_EQ(ReadTarget("http://h:8000/v2?a")->host, "h:8000");
  EXPECT_EQ(ReadTarget("HTTPS://h")->host, "h");
  EXPECT_EQ(ReadTarget("http://h?a")->host, "h");
  EXPECT_EQ(ReadTarget("http://h?a")->query, "a");
  EXPECT_EQ(ReadTarget("/http://h")->host, "");
}

TEST(ReadTargetTest, ASlashIsNotHidden) {
  for (const char* path : {"/v2%2Frepository", "/v2%2frepository", "/%2F"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ReadTarget(path).status())) << path;
  }
  EXPECT_EQ(ReadTarget("/a?b%2Fc")->query, "b%2Fc");
  EXPECT_EQ(ReadTarget("/a%252Fb")->path, "/a%2Fb");
}

TEST(ReadTargetTest, APathIsUtf8) {
  for (const char* path :
       {"/\xC3\xA4", "/%E2%82%AC", "/\xF0\x9F\x98\x80", "/%c3%a4"}) {
    EXPECT_TRUE(ReadTarget(path).ok()) << path;
  }
  for (const char* path :
       {"/%ff", "/\xC3", "/\xC3(", "/%C0%AF", "/%E0%80%AF", "/%ED%A0%80",
        "/%F4%90%80%80", "/%F8%88%80%80%80", "/%80", "/%E2%82"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ReadTarget(path).status())) << path;
  }
}

}  // namespace
}  // namespace gpupool::server
