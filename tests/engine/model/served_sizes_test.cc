#include "engine/model/served_sizes.h"

#include "gmock/gmock.h"
#include "gpupool/v1/model.pb.h"
#include "gtest/gtest.h"

namespace gpupool::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ServedSizesTest : public testing::Test {
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
  Dimension("s").set_minimum(0);
  EXPECT_THAT(Error(), HasSubstr("from 0 to 2"));
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

}  // namespace
}  // namespace gpupool::engine
