#include "engine/base/quoted_names.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpupool::engine {
namespace {

struct Named {
  std::string name;
};

TEST(QuotedNamesTest, NamesAreQuotedAndSeparated) {
  EXPECT_EQ(QuotedNames(std::vector<Named>{}), "");
  EXPECT_EQ(QuotedNames(std::vector<Named>{{"ids"}, {"mask"}}),
            "'ids', 'mask'");
}

}  // namespace
}  // namespace gpupool::engine
