#include "engine/model/served_sizes.h"

#include "gmock/gmock.h"
#include "gpupool/v1/model.pb.h"
#include "gtest/gtest.h"

namespace gpupool::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ServedSizesTest : public ::testing::Test {
 protected:
  v1::DimensionSizes& Dimension(const std::string& name) {
    return (*model_.mutable_served_dimensions())[name];
  }
  std::string Error() {
    const auto served = ReadServedSizes(model_);
    EXPECT_EQ(served.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(served.status().message());
  }
  v1::OnnxModel model_;
};

TEST_F(ServedSizesTest, DimensionsAreSortedByName) {
  Dimension("width").add_sizes(32);
  Dimension("height").set_minimum(8);
  Dimension("height").set_maximum(64);
  const auto served = ReadServedSizes(model_);
  ASSERT_TRUE(served.ok()) << served.status();
  ASSERT_EQ(served->dimensions.size(), 2u);
  EXPECT_EQ(served->dimensions[0].name, "height");
  EXPECT_TRUE(served->dimensions[0].Takes(9));
  EXPECT_FALSE(served->dimensions[0].Takes(65));
  EXPECT_EQ(served->dimensions[0].Text(), "8 to 64");
  EXPECT_EQ(served->dimensions[1].minimum, 32);
  EXPECT_TRUE(served->dimensions[1].Takes(32));
  EXPECT_FALSE(served->dimensions[1].Takes(31));
  EXPECT_THAT(served->dimensions[1].sizes, ElementsAre(32));
}

TEST_F(ServedSizesTest, SizesMustRise) {
  Dimension("s").add_sizes(64);
  Dimension("s").add_sizes(64);
  EXPECT_THAT(Error(), HasSubstr("'s' lists 64 after 64"));
  EXPECT_THAT(Error(), HasSubstr("(--dimension s=SIZES)"));
}

TEST_F(ServedSizesTest, ARangeMustHoldASize) {
  Dimension("s").set_minimum(3);
  Dimension("s").set_maximum(2);
  EXPECT_THAT(Error(), HasSubstr("from 3 to 2"));
  Dimension("s").set_minimum(-1);
  EXPECT_THAT(Error(), HasSubstr("from -1 to 2"));
  Dimension("s").set_minimum(0);
  EXPECT_TRUE(ReadServedSizes(model_).ok());
  Dimension("s").set_maximum(0);
  EXPECT_THAT(Error(), HasSubstr("from 0 to 0"));
}

TEST_F(ServedSizesTest, AListMayBeginWithZero) {
  Dimension("past").add_sizes(0);
  Dimension("past").add_sizes(16);
  const auto served = ReadServedSizes(model_);
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_TRUE(served->dimensions[0].Takes(0));
  EXPECT_EQ(served->dimensions[0].minimum, 0);
}

TEST_F(ServedSizesTest, ARangeAndAListExcludeEachOther) {
  Dimension("s").set_maximum(2);
  Dimension("s").add_sizes(1);
  EXPECT_THAT(Error(), HasSubstr("a range and a list"));
}

TEST_F(ServedSizesTest, OneSizeAndSeveralExcludeEachOther) {
  Dimension("s").add_sizes(1);
  (*model_.mutable_dimensions())["s"] = 1;
  EXPECT_THAT(Error(), HasSubstr("one size and several"));
}

TEST_F(ServedSizesTest, ListsAndDimensionsAreLimited) {
  for (int64_t size = 1; size <= 17; ++size) Dimension("s").add_sizes(size);
  EXPECT_THAT(Error(), HasSubstr("lists 17 sizes; at most 16"));
  for (const char* name : {"a", "b", "c", "d"}) Dimension(name).add_sizes(1);
  EXPECT_THAT(Error(), HasSubstr("5 dimensions of several sizes; at most 4"));
}

// Served: past from 0 to 64 and sequence from 1 to 8; heads is 12.
class DerivedSizesTest : public ServedSizesTest {
 protected:
  DerivedSizesTest() {
    Dimension("past").set_maximum(64);
    Dimension("sequence").set_minimum(1);
    Dimension("sequence").set_maximum(8);
    (*model_.mutable_dimensions())["heads"] = 12;
  }
  absl::Status Derive(const std::vector<DeclaredPort>& ports = {}) {
    served_ = *ReadServedSizes(model_);
    return AddDerivedSizes(model_, ports, served_);
  }
  std::string DeriveError(const std::string& text) {
    (*model_.mutable_derived_dimensions())["total"] = text;
    const absl::Status status = Derive();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  }
  ServedSizes served_;
};

TEST_F(DerivedSizesTest, SizesFollowFromServedOnesAndFixedOnes) {
  (*model_.mutable_derived_dimensions())["total"] = "past + sequence";
  (*model_.mutable_derived_dimensions())["cells"] = "heads * past";
  ASSERT_TRUE(Derive().ok());
  EXPECT_EQ(served_.derived.at("cells").text(), "12 * past");
  EXPECT_EQ(*served_.Size(served_.derived.at("total"), {5, 3}), 8);
  EXPECT_EQ(*served_.LargestSize(served_.derived.at("total")), 72);
  absl::flat_hash_map<std::string, int64_t> sizes = {
      {"past", 5}, {"sequence", 3}, {"heads", 12}};
  ASSERT_TRUE(AddDerivedTo(served_, sizes).ok());
  EXPECT_EQ(sizes.at("total"), 8);
  EXPECT_EQ(sizes.at("cells"), 60);
}

TEST_F(DerivedSizesTest, ANameThatIsAnExpressionNeedsNoEntry) {
  (*model_.mutable_derived_dimensions())["total"] = "past + sequence";
  ASSERT_TRUE(Derive({{"mask", {"batch", "past + 1"}},
                      {"cache", {"batch", "heads", "past", "heads*2"}},
                      {"odd", {"", "s0 + past", "past**2", "batch * 2"}},
                      {"y", {"batch", "total"}}})
                  .ok());
  ASSERT_EQ(served_.derived_axes.size(), 3u);
  EXPECT_EQ(served_.derived_axes[0].port, "mask");
  EXPECT_EQ(served_.derived_axes[0].axis, 1);
  EXPECT_EQ(served_.derived_axes[0].size.text(), "past + 1");
  EXPECT_EQ(served_.derived_axes[1].size.text(), "12*2");
  EXPECT_EQ(served_.derived_axes[2].size.text(), "past + sequence");
  EXPECT_EQ(served_.derived.count("past + 1"), 1u);
  EXPECT_EQ(served_.derived.count("s0 + past"), 0u);
}

TEST_F(DerivedSizesTest, WrongEntriesAreRefused) {
  EXPECT_THAT(DeriveError("past +"),
              AllOf(HasSubstr("'total' = past +"), HasSubstr("character 7")));
  EXPECT_THAT(DeriveError("past + steps"),
              HasSubstr("'steps' has no size; give one or several with "
                        "--dimension steps=SIZES"));
  EXPECT_THAT(DeriveError("total + 1"), HasSubstr("itself"));
  (*model_.mutable_derived_dimensions())["more"] = "past + 2";
  EXPECT_THAT(DeriveError("more + 1"), HasSubstr("write it out as (past + 2)"));
  Dimension("total").set_maximum(4);
  EXPECT_THAT(DeriveError("past + 1"), HasSubstr("a size as well"));
  for (int i = 0; i < kMaxDerivedDimensions; ++i) {
    (*model_.mutable_derived_dimensions())[std::to_string(i)] = "past";
  }
  EXPECT_THAT(DeriveError("past"), HasSubstr("18 dimensions that follow"));
}

TEST_F(DerivedSizesTest, ANegativeSizeNamesDimensionExpressionAndSizes) {
  (*model_.mutable_derived_dimensions())["rest"] = "past - sequence";
  ASSERT_TRUE(Derive().ok());
  absl::flat_hash_map<std::string, int64_t> sizes = {{"past", 2},
                                                     {"sequence", 5}};
  EXPECT_THAT(std::string(AddDerivedTo(served_, sizes).message()),
              HasSubstr("dimension 'rest': the size 'past - sequence' is -3 "
                        "for past=2, sequence=5"));
}

}  // namespace
}  // namespace gpupool::engine
