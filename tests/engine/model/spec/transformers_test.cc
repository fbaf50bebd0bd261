#include "engine/model/spec/transformers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/model_source.h"
#include "engine/model/spec/named_models.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace testing;  // NOLINT: the fixtures of this tree

constexpr char kTinyVit[] =
    "named { vit_tiny { classes: 4 patch: 4 width: 8 depth: 1 heads: 2 } } "
    "input_shape: [1, 8, 12]";
constexpr char kTinyGpt[] =
    "named { gpt_tiny { vocabulary: 9 context: 6 width: 8 depth: 1 heads: 2 } "
    "}";

ModelGraph BuildTransformer(const std::string& text) {
  auto model = (*ModelSource::Open(ModelFromText(text), ""))->Build({});
  EXPECT_TRUE(model.ok()) << text << ": " << model.status();
  return model.ok() ? *std::move(model) : ModelGraph();
}

std::string TransformerError(const std::string& text) {
  const auto spec = ExpandNamed(ModelFromText(text));
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(spec.status().message());
}

std::vector<std::string> LayerNames(const ModelGraph& model) {
  std::vector<std::string> names;
  for (const LayerInfo& layer : model.layers) names.push_back(layer.name);
  return names;
}

const PersistentSpec& WeightOf(const ModelGraph& model,
                               const std::string& name) {
  const auto found = std::find_if(
      model.persistents.begin(), model.persistents.end(),
      [&](const PersistentSpec& spec) { return spec.name == name; });
  EXPECT_NE(found, model.persistents.end()) << name;
  static const PersistentSpec kNone;
  return found == model.persistents.end() ? kNone : *found;
}

TEST(TransformersTest, LayersOfAVisionTransformerAreNamedAsInTimm) {
  EXPECT_THAT(
      LayerNames(BuildTransformer(kTinyVit)),
      ElementsAre("patch_embed.proj", "patch_embed.tokens", "cls_token",
                  "pos_embed", "blocks.0.norm1", "blocks.0.attn.qkv",
                  "blocks.0.attn", "blocks.0.attn.proj", "blocks.0.add1",
                  "blocks.0.norm2", "blocks.0.mlp.fc1", "blocks.0.mlp.act",
                  "blocks.0.mlp.fc2", "blocks.0.add2", "norm", "pick", "head"));
}

TEST(TransformersTest, LayersOfAGptAreNamedAsInNanoGpt) {
  EXPECT_THAT(LayerNames(BuildTransformer(kTinyGpt)),
              ElementsAre("wte", "wpe", "h.0.ln_1", "h.0.attn.c_attn",
                          "h.0.attn", "h.0.attn.c_proj", "h.0.add1", "h.0.ln_2",
                          "h.0.mlp.c_fc", "h.0.mlp.gelu", "h.0.mlp.c_proj",
                          "h.0.add2", "ln_f", "lm_head"));
}

TEST(TransformersTest, ShapesFollowTheOptions) {
  const ModelGraph vit = BuildTransformer(kTinyVit);
  EXPECT_EQ(WeightOf(vit, "patch_embed.proj.weight").shape,
            (Shape{8, 1, 4, 4}));
  EXPECT_EQ(WeightOf(vit, "pos_embed.weight").shape, (Shape{7, 8}));
  EXPECT_EQ(WeightOf(vit, "blocks.0.attn.qkv.weight").shape, (Shape{24, 8}));
  EXPECT_EQ(WeightOf(vit, "blocks.0.mlp.fc1.weight").shape, (Shape{32, 8}));
  EXPECT_EQ(vit.output_shape, (Shape{4}));
  const ModelGraph gpt = BuildTransformer(
      "named { gpt_tiny { vocabulary: 9 context: 6 width: 8 depth: 1 heads: 2 "
      "hidden: 5 } } input_shape: 3");
  EXPECT_EQ(WeightOf(gpt, "wpe.weight").shape, (Shape{6, 8}));
  EXPECT_EQ(WeightOf(gpt, "h.0.mlp.c_fc.weight").shape, (Shape{5, 8}));
  EXPECT_EQ(gpt.input_shape, (Shape{3}));
  EXPECT_EQ(gpt.output_shape, (Shape{3, 9}));
  EXPECT_EQ(gpt.inputs[0].dtype, DType::kInt64);
}

// GPT-2's smallest published model has these sizes.
TEST(TransformersTest, AGptOfTheSizeOfGpt2HasItsParameters) {
  EXPECT_EQ(BuildTransformer("named { gpt_tiny { vocabulary: 50257 context: "
                             "1024 width: 768 depth: 12 heads: 12 } }")
                .parameters(),
            124'439'808u);
}

// timm's vit_tiny_patch16_224 with class_token=False and global_pool="avg".
TEST(TransformersTest, TheMeanOfTheTokensReplacesTheClassToken) {
  const ModelGraph model =
      BuildTransformer("named { vit_tiny { mean_tokens: true } }");
  EXPECT_EQ(model.parameters(), 5'717'416u - 2 * 192);
  EXPECT_THAT(LayerNames(model), Not(Contains("cls_token")));
  EXPECT_EQ(model.layers.back().name, "head");
  EXPECT_EQ(model.layers[model.layers.size() - 2].name, "fc_norm");
  EXPECT_EQ(model.layers[model.layers.size() - 3].kind, "mean_tokens");
}

TEST(TransformersTest, WeightsBeginAsInTimmAndNanoGpt) {
  const auto deviation = [](const ModelGraph& model, const std::string& name) {
    const Initializer& begin = WeightOf(model, name).initializer;
    EXPECT_EQ(begin.kind, Initializer::Kind::kNormal) << name;
    return begin.deviation;
  };
  const ModelGraph vit = BuildTransformer("named { vit_tiny { depth: 2 } }");
  const Initializer& patches =
      WeightOf(vit, "patch_embed.proj.weight").initializer;
  EXPECT_EQ(patches.kind, Initializer::Kind::kUniform);
  EXPECT_DOUBLE_EQ(patches.bound, 1 / std::sqrt(3.0 * 16 * 16));
  EXPECT_DOUBLE_EQ(deviation(vit, "cls_token.weight"), 1e-6);
  for (const char* name : {"pos_embed", "blocks.1.attn.qkv",
                           "blocks.1.attn.proj", "blocks.1.mlp.fc2", "head"}) {
    EXPECT_DOUBLE_EQ(deviation(vit, absl::StrCat(name, ".weight")), 0.02);
  }
  EXPECT_EQ(WeightOf(vit, "head.bias").initializer.value, 0);
  EXPECT_EQ(WeightOf(vit, "norm.weight").initializer.value, 1);

  const ModelGraph gpt = BuildTransformer("named { gpt_tiny { depth: 2 } }");
  for (const char* name : {"wte", "wpe", "h.1.attn.c_attn", "h.1.mlp.c_fc"}) {
    EXPECT_DOUBLE_EQ(deviation(gpt, absl::StrCat(name, ".weight")), 0.02);
  }
  for (const char* name : {"h.1.attn.c_proj", "h.1.mlp.c_proj"}) {
    EXPECT_DOUBLE_EQ(deviation(gpt, absl::StrCat(name, ".weight")), 0.01);
  }
}

TEST(TransformersTest, DropoutsAreBehindPositionsAndBranches) {
  const std::vector<std::string> vit = LayerNames(
      BuildTransformer("named { vit_tiny { depth: 1 dropout: 0.1 } }"));
  for (const char* name : {"pos_drop", "blocks.0.attn.dropout",
                           "blocks.0.mlp.dropout1", "blocks.0.mlp.dropout"}) {
    EXPECT_THAT(vit, Contains(name));
  }
  const std::vector<std::string> gpt = LayerNames(
      BuildTransformer("named { gpt_tiny { depth: 1 dropout: 0.1 } }"));
  for (const char* name : {"drop", "h.0.attn.dropout", "h.0.mlp.dropout"}) {
    EXPECT_THAT(gpt, Contains(name));
  }
  EXPECT_THAT(gpt, Not(Contains("h.0.mlp.dropout1")));
}

TEST(TransformersTest, OptionsHaveLimitsAndFitEachOther) {
  const std::pair<const char*, const char*> cases[] = {
      {"vit_tiny { width: 100 }",
       "named vit_tiny: heads 3 must divide the width 100"},
      {"vit_tiny { width: 16385 }", "width is 16385; write 1 .. 16384"},
      {"vit_tiny { width: -1 }", "width is -1"},
      {"vit_tiny { depth: 129 }", "depth is 129; write 1 .. 128"},
      {"vit_tiny { heads: -3 }", "heads is -3"},
      {"vit_tiny { hidden: 65537 }", "hidden is 65537; write 1 .. 65536"},
      {"vit_tiny { classes: -1 }", "classes is -1"},
      {"vit_tiny { patch: -1 }", "patch is -1"},
      {"vit_tiny { patch: 15 }",
       "patch 15 must divide both sides of the 224 x 224 image"},
      {"vit_tiny { patch: 1 }", "224 x 224 patches; at most 16384"},
      {"vit_tiny { dropout: 1 }", "dropout 1 must be"},
      {"gpt_tiny { dropout: nan }", "dropout nan must be"},
      {"gpt_tiny { heads: 3 }",
       "named gpt_tiny: heads 3 must divide the width 128"},
      {"gpt_tiny { vocabulary: 1048577 }", "vocabulary is 1048577"},
      {"gpt_tiny { context: 16385 }", "context is 16385; write 1 .. 16384"},
  };
  for (const auto& [named, message] : cases) {
    EXPECT_THAT(TransformerError(std::string("named { ") + named + " }"),
                HasSubstr(message));
  }
}

TEST(TransformersTest, InputsMustFit) {
  EXPECT_THAT(TransformerError("named { vit_tiny {} } input_shape: [224, 224]"),
              HasSubstr("input_shape has 2 dimensions"));
  EXPECT_THAT(
      TransformerError("named { vit_tiny {} } input_shape: [1, 28, 28]"),
      HasSubstr("patch 16 must divide both sides of the 28 x 28 image"));
  EXPECT_THAT(TransformerError("named { vit_tiny { patch: 1 } } input_shape: "
                               "[1, 9223372036854775807, 2]"),
              HasSubstr("patches; at most 16384"));
  EXPECT_THAT(TransformerError("named { vit_tiny { patch: 1 } } input_shape: "
                               "[1, -9223372036854775807, 2]"),
              HasSubstr("sides of the -9223372036854775807 x 2 image"));
  EXPECT_THAT(TransformerError("named { gpt_tiny {} } input_shape: 65"),
              HasSubstr("input_shape has 65 tokens, but context is 64"));
  EXPECT_THAT(TransformerError("named { gpt_tiny {} } input_shape: [8, 8]"),
              HasSubstr("input_shape has 2 dimensions; write [tokens]"));
}

}  // namespace
}  // namespace gpupool::engine
