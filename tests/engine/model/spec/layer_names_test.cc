#include "engine/model/spec/layer_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the fixtures of this tree

std::string ReferenceError(const std::string& text) {
  const absl::Status status = CheckReferences(ModelFromText(text));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(LayerNamesTest, ANameIsGivenOrKindAndPosition) {
  const v1::ModelSpec spec =
      ModelFromText("layers { max_pool {} } layers { name: 'a.0' relu {} }");
  EXPECT_EQ(LayerName(spec.layers(0), 7), "max_pool_7");
  EXPECT_EQ(LayerName(spec.layers(1), 7), "a.0");
  EXPECT_EQ(LayerKindName(spec.layers(1)), "relu");
  EXPECT_EQ(LayerKindName(v1::Layer()), "layer");
}

TEST(LayerNamesTest, EarlierLayersAndTheInputMayBeRead) {
  EXPECT_TRUE(CheckReferences(ModelFromText(R"pb(
                layers { relu {} }
                layers {
                  name: "b"
                  tanh {}
                  input: "input"
                }
                layers {
                  add { from: "relu_0" }
                  input: "b"
                }
              )pb"))
                  .ok());
}

TEST(LayerNamesTest, UnknownLaterAndOwnNamesAreRefused) {
  EXPECT_THAT(ReferenceError("layers { name: 'a' relu {} input: 'ghost' }"),
              AllOf(HasSubstr("layer 'a': reads the output of 'ghost'"),
                    HasSubstr("no earlier layer has that name")));
  EXPECT_THAT(ReferenceError("layers { relu {} input: 'late' } "
                             "layers { name: 'late' tanh {} }"),
              AllOf(HasSubstr("layer 'relu_0': reads the output of 'late'"),
                    HasSubstr("later layer")));
  EXPECT_THAT(ReferenceError("layers { name: 'me' relu {} input: 'me' }"),
              HasSubstr("its own name"));
  EXPECT_THAT(ReferenceError("layers { name: 'me' add { from: 'me' } }"),
              AllOf(HasSubstr("layer 'me': adds"), HasSubstr("its own name")));
}

TEST(LayerNamesTest, AnEmbeddingOfTheInputMakesItWhole) {
  const auto reads_tokens = [](const std::string& text) {
    return ReadsTokens(ModelFromText(text));
  };
  EXPECT_TRUE(reads_tokens("layers { embedding {} }"));
  EXPECT_TRUE(reads_tokens(
      "layers { relu {} } layers { embedding {} input: 'input' }"));
  EXPECT_FALSE(reads_tokens("layers { relu {} } layers { embedding {} }"));
  EXPECT_FALSE(reads_tokens("layers { dense { units: 1 } }"));
}

TEST(LayerNamesTest, TwoLayersOfOneNameAreRefused) {
  EXPECT_THAT(ReferenceError("layers { name: 'relu_1' relu {} } "
                             "layers { relu {} }"),
              HasSubstr("two layers are named 'relu_1'"));
}

TEST(LayerNamesTest, AnOutputThatNobodyReadsIsRefused) {
  EXPECT_THAT(ReferenceError("layers { name: 'lost' relu {} } "
                             "layers { tanh {} input: 'input' }"),
              AllOf(HasSubstr("layer 'lost': no later layer reads its output"),
                    HasSubstr("remove")));
}

}  // namespace
}  // namespace gpupool::engine
