#include "scheduler/text/tenant_text.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"

namespace gpupool::scheduler {
namespace {

using ::testing::HasSubstr;

TEST(ParseTenantSharesTest, ReadsAllThatIsSet) {
  const auto shares = ParseTenantShares(
      "research:weight=3,guaranteed=4; research.vision : most = 2;");
  ASSERT_TRUE(shares.ok()) << shares.status();
  ASSERT_EQ(shares->size(), 2u);
  EXPECT_EQ(shares->at("research").weight, 3);
  EXPECT_EQ(shares->at("research").guaranteed, 4u);
  EXPECT_FALSE(shares->at("research").most.has_value());
  EXPECT_EQ(shares->at("research.vision").weight, 1);
  EXPECT_EQ(shares->at("research.vision").most, 2u);
}

TEST(ParseTenantSharesTest, ReadsALimitOfJobs) {
  const auto shares = ParseTenantShares("shop:jobs=50;lab:most=1,jobs=0");
  ASSERT_TRUE(shares.ok()) << shares.status();
  EXPECT_EQ(shares->at("shop").most_jobs, 50u);
  EXPECT_EQ(shares->at("lab").most_jobs, 0u);
  EXPECT_EQ(shares->at("lab").most, 1u);
}

TEST(ParseTenantSharesTest, ReadsLimitsOfModelsAndBytes) {
  const auto shares = ParseTenantShares(
      "lab:models=4,stored-bytes=1.5GiB,device-bytes=2KiB;shop:models=0,stored-"
      "bytes=4096");
  ASSERT_TRUE(shares.ok()) << shares.status();
  EXPECT_EQ(shares->at("lab").most_models, 4u);
  EXPECT_EQ(shares->at("lab").most_stored_bytes, uint64_t{3} << 29);
  EXPECT_EQ(shares->at("lab").most_device_bytes, 2048u);
  EXPECT_EQ(shares->at("shop").most_models, 0u);
  EXPECT_EQ(shares->at("shop").most_stored_bytes, 4096u);
  EXPECT_FALSE(shares->at("shop").most_jobs.has_value());
}

TEST(ParseTenantSharesTest, NothingIsNoShares) {
  const auto shares = ParseTenantShares(" ; ");
  ASSERT_TRUE(shares.ok()) << shares.status();
  EXPECT_TRUE(shares->empty());
}

TEST(ParseTenantSharesTest, ErrorsNameTheTenantTheValueAndWhatIsAllowed) {
  struct Case {
    const char* text;
    const char* error;
  };
  for (const Case& wrong : {
           Case{":weight=1", "tenant '': is no name"},
           Case{"a b:weight=1", "tenant 'a b': is no name"},
           Case{".a:weight=1", "is no name"},
           Case{"a..b:weight=1", "tenant 'a..b': is no name"},
           Case{"a", "tenant 'a': nothing is set"},
           Case{"a:weight=0", "'a': weight=0; a weight is a number from 1e-06"},
           Case{"a:weight=nan", "weight=nan"},
           Case{"a:weight=x", "weight=x"},
           Case{"a:most=-1", "most=-1; a number of devices is from 0"},
           Case{"a:most=1.5", "most=1.5"},
           Case{"a:jobs=-1", "jobs=-1; a number of jobs is from 0 to 1048576"},
           Case{"a:models=x", "models=x; a number of models is from 0 to"},
           Case{"a:stored-bytes=-1", "a number of bytes is from 0 to"},
           Case{"a:stored-bytes=1e30GiB", "stored-bytes=1e30GiB; a number of"},
           Case{"a:stored-bytes=nanKiB", "stored-bytes=nanKiB; a number of"},
           Case{"a:stored-bytes=GiB", "stored-bytes=GiB; a number of bytes"},
           Case{"a:stored-bytes=5GB", "with KiB, MiB, GiB or TiB"},
           Case{"a:guaranteed=99999999999", "guaranteed=99999999999"},
           Case{"a:limit=3", "known are weight=NUMBER, guaranteed="},
           Case{"a:guaranteed=3,most=2", "guaranteed=3 is above most=2"},
           Case{"a:most=1;a:weight=2", "tenant 'a': is there twice"},
       }) {
    const auto shares = ParseTenantShares(wrong.text);
    EXPECT_EQ(shares.status().code(), absl::StatusCode::kInvalidArgument)
        << wrong.text;
    EXPECT_THAT(std::string(shares.status().message()), HasSubstr(wrong.error));
  }
}

TEST(MakeTenantSharesTest, ErrorsSayWhereTheEntryAndTheWordStand) {
  NamedWords tenant{
      .name = "a",
      .words = {{"weight", "2", " at line 3"}, {"most", "x", " at line 4"}},
      .where = " at line 2"};
  EXPECT_THAT(std::string(MakeTenantShares({tenant}).status().message()),
              HasSubstr("tenant 'a' at line 2: most=x at line 4; a number"));
  tenant.words.pop_back();
  EXPECT_EQ(MakeTenantShares({tenant})->at("a").weight, 2);
}

TEST(ParseTenantSharesTest, TheirNumberIsBounded) {
  std::string text;
  for (size_t i = 0; i <= kMostTenantShares; ++i) {
    absl::StrAppend(&text, "t", i, ":weight=1;");
  }
  EXPECT_FALSE(ParseTenantShares(text).ok());
}

}  // namespace
}  // namespace gpupool::scheduler
