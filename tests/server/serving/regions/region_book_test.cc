#include "server/serving/regions/region_book.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/regions/region_files.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RegionBookTest : public ::testing::Test {
 protected:
  RegionBookTest() { files_.Put("/a", "0123456789"); }

  absl::Status Register(const RegionCaller& caller, const std::string& name,
                        uint64_t bytes = 1) {
    return book_.Register(
        caller, {.name = name, .key = "/a", .offset = 0, .bytes = bytes});
  }
  std::vector<std::string> Names(const std::string& tenant) const {
    std::vector<std::string> names;
    const auto regions = book_.List(tenant, "");
    if (!regions.ok()) return names;
    for (const RegionSpec& region : *regions) names.push_back(region.name);
    return names;
  }

  RegionFiles files_;
  const RegionCaller lab_{.tenant = "lab", .user = 1000};
  const RegionCaller ward_{.tenant = "ward", .user = 1000};
  RegionBook book_{{.regions = 4, .regions_of_tenant = 3, .bytes_of_tenant = 8},
                   files_.folder()};
};

TEST_F(RegionBookTest, ATenantSeesItsOwnRegionsOnly) {
  ASSERT_TRUE(Register(lab_, "x", 2).ok());
  ASSERT_TRUE(Register(ward_, "x", 3).ok());
  ASSERT_TRUE(Register(ward_, "y").ok());
  EXPECT_EQ((*book_.Find(lab_, "x"))->spec().bytes, 2u);
  EXPECT_EQ((*book_.Find(ward_, "x"))->spec().bytes, 3u);
  EXPECT_TRUE(absl::IsNotFound(book_.Find(lab_, "y").status()));
  EXPECT_TRUE(absl::IsNotFound(book_.List("lab", "y").status()));
  EXPECT_THAT(Names("lab"), ElementsAre("x"));
  EXPECT_THAT(Names("ward"), ElementsAre("x", "y"));
  EXPECT_THAT(Names(""), ElementsAre());
  book_.Unregister("lab", "");
  book_.Unregister("lab", "y");
  EXPECT_THAT(Names("lab"), ElementsAre());
  EXPECT_THAT(Names("ward"), ElementsAre("x", "y"));
}

TEST_F(RegionBookTest, ANameIsTakenUntilItIsUnregistered) {
  ASSERT_TRUE(Register(lab_, "x").ok());
  const absl::Status again = Register(lab_, "x");
  EXPECT_TRUE(absl::IsAlreadyExists(again));
  EXPECT_THAT(std::string(again.message()), HasSubstr("already in manager"));
  book_.Unregister("lab", "x");
  EXPECT_TRUE(Register(lab_, "x").ok());
  book_.Unregister("lab", "unknown");
  EXPECT_THAT(Names("lab"), ElementsAre("x"));
}

TEST_F(RegionBookTest, CallersOfOtherMachinesHaveNoSharedMemory) {
  ASSERT_TRUE(Register(lab_, "x").ok());
  const RegionCaller remote{.tenant = "lab", .user = {}};
  EXPECT_TRUE(absl::IsPermissionDenied(Register(remote, "y")));
  const auto found = book_.Find(remote, "x");
  EXPECT_TRUE(absl::IsPermissionDenied(found.status()));
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("loopback"));
}

TEST_F(RegionBookTest, ARegionLivesWhileARequestUsesIt) {
  ASSERT_TRUE(Register(lab_, "x", 8).ok());
  const auto used = book_.Find(lab_, "x");
  book_.Unregister("lab", "");
  EXPECT_TRUE(absl::IsNotFound(book_.Find(lab_, "x").status()));
  std::byte byte{};
  EXPECT_TRUE((*used)->Read(7, absl::MakeSpan(&byte, 1)).ok());
  EXPECT_EQ(byte, std::byte{'7'});
}

TEST_F(RegionBookTest, EveryLimitHasItsWords) {
  for (const char* name : {"x", "y", "z"}) {
    ASSERT_TRUE(Register(lab_, name, 2).ok());
  }
  const absl::Status fourth = Register(lab_, "w");
  EXPECT_TRUE(absl::IsResourceExhausted(fourth));
  EXPECT_THAT(std::string(fourth.message()), HasSubstr("the tenant has 3"));
  book_.Unregister("lab", "z");
  const absl::Status large = Register(lab_, "z", 5);
  EXPECT_TRUE(absl::IsResourceExhausted(large));
  EXPECT_THAT(std::string(large.message()), HasSubstr("4 of at most 8"));
  EXPECT_TRUE(absl::IsResourceExhausted(
      Register(lab_, "z", std::numeric_limits<uint64_t>::max())));
  ASSERT_TRUE(Register(lab_, "z", 4).ok());
  ASSERT_TRUE(Register(ward_, "x").ok());
  const absl::Status fifth = Register(ward_, "y");
  EXPECT_TRUE(absl::IsResourceExhausted(fifth));
  EXPECT_THAT(std::string(fifth.message()), HasSubstr("the server has 4"));
}

TEST_F(RegionBookTest, RegionsThatRequestsStillUseCount) {
  std::vector<std::shared_ptr<const SharedRegion>> used;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Register(lab_, "x").ok());
    used.push_back(*book_.Find(lab_, "x"));
    book_.Unregister("lab", "x");
  }
  EXPECT_TRUE(absl::IsResourceExhausted(Register(lab_, "x")));
  used.clear();
  EXPECT_TRUE(Register(lab_, "x").ok());
}

}  // namespace
}  // namespace gpupool::server
