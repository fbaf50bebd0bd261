#include "engine/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ExplainTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  std::string Text(ExplainOptions options = {}) {
    options.model_path = path_;
    const auto text = Explain(options);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.ok() ? *text : "";
  }

  ScratchFolder folder_;
  std::string path_ = folder_.path() + "/model.json";
};

constexpr char kModel[] = R"json({
  "inputShape": ["4"],
  "layers": [{"dense": {"units": "8"}}, {"relu": {}},
             {"name": "last", "dense": {"units": "3"}}]
})json";

TEST_F(ExplainTest, InferenceNamesNodesBytesAndArena) {
  Write(kModel);
  const std::string text = Text({.batch = 2});
  EXPECT_THAT(text, HasSubstr("inference, batch 2"));
  EXPECT_THAT(text, HasSubstr("nodes  2: matmul 2"));
  EXPECT_THAT(text, HasSubstr("of the lower bound"));
  EXPECT_THAT(text, HasSubstr("slow   none"));
  EXPECT_THAT(text, Not(HasSubstr("passes\n")));
}

TEST_F(ExplainTest, PassesAndTheGraphOnDemand) {
  Write(kModel);
  const std::string text =
      Text({.passes = true, .dump = true, .off = {"fuse"}});
  EXPECT_THAT(text, HasSubstr("schedule"));
  EXPECT_THAT(text, HasSubstr("off"));
  EXPECT_THAT(text, HasSubstr("relu 1"));
  EXPECT_THAT(text, HasSubstr("persistent %last.weight"));
}

TEST_F(ExplainTest, TheTrainingStepHasAnOptimizer) {
  Write(kModel);
  EXPECT_THAT(Text({.batch = 4, .training = true}), HasSubstr("sgd_step 4"));
}

TEST_F(ExplainTest, SaysWhatIsWrong) {
  EXPECT_EQ(Explain({.model_path = path_}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Explain({.model_path = folder_.path() + "/m.onnx"}).status().code(),
            absl::StatusCode::kNotFound);
  Write("{");
  EXPECT_EQ(Explain({.model_path = path_}).status().code(),
            absl::StatusCode::kInvalidArgument);
  Write(kModel);
  EXPECT_EQ(Explain({.model_path = path_, .off = {"fuze"}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpupool::engine
