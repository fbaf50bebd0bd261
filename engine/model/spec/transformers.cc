#include "engine/model/spec/transformers.h"

#include <cmath>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/model/spec/layer_list.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

constexpr int64_t kMaxTokenWidth = 16'384;
constexpr int64_t kMaxHidden = 65'536;
constexpr int64_t kMaxBlocks = 128;
constexpr int64_t kMaxTokens = 16'384;
constexpr int64_t kMaxVocabulary = 1'048'576;
constexpr int64_t kMaxClasses = int64_t{1} << 31;

// Standard deviation of the weights of products and of tables.
constexpr double kDeviation = 0.02;
// Standard deviation of the class token, as in timm.
constexpr double kClassDeviation = 1e-6;

struct BlockSizes {
  int64_t width = 0;
  int64_t depth = 0;
  int64_t heads = 0;
  int64_t hidden = 0;
  double dropout = 0;
};

// Names of the layers of a block. The name of the block and a dot come first.
struct BlockNames {
  const char* norm1;
  const char* attend_in;
  const char* attend;
  const char* attend_out;
  const char* norm2;
  const char* widen;
  const char* gelu;
  const char* narrow;
};
constexpr BlockNames kTimmNames = {"norm1", "attn.qkv", "attn",    "attn.proj",
                                   "norm2", "mlp.fc1",  "mlp.act", "mlp.fc2"};
constexpr BlockNames kNanoGptNames = {"ln_1",        "attn.c_attn", "attn",
                                      "attn.c_proj", "ln_2",        "mlp.c_fc",
                                      "mlp.gelu",    "mlp.c_proj"};

// Differences between the blocks of the two models.
struct BlockStyle {
  BlockNames names;
  double epsilon = 1e-5;  // of the norms
  bool causal = false;
  bool drops_hidden = false;  // also after the GELU
  // Standard deviation of the products at the end of a branch.
  double end_deviation = kDeviation;
};

// An option with its value and its limits.
struct Option {
  const char* name;
  int64_t value;
  int64_t fallback;  // stands for 0
  int64_t most;
};

absl::StatusOr<int64_t> Read(const Option& option) {
  const int64_t value = option.value == 0 ? option.fallback : option.value;
  if (value >= 1 && value <= option.most) return value;
  return Refuse(option.name, " is ", value, "; write 1 .. ", option.most);
}

template <typename Options>
absl::StatusOr<BlockSizes> ReadSizes(const Options& options,
                                     const BlockSizes& defaults) {
  BlockSizes sizes{.dropout = options.dropout()};
  ASSIGN_OR_RETURN(sizes.width, Read({"width", options.width(), defaults.width,
                                      kMaxTokenWidth}));
  ASSIGN_OR_RETURN(sizes.depth, Read({"depth", options.depth(), defaults.depth,
                                      kMaxBlocks}));
  ASSIGN_OR_RETURN(sizes.heads, Read({"heads", options.heads(), defaults.heads,
                                      kMaxTokenWidth}));
  ASSIGN_OR_RETURN(sizes.hidden, Read({"hidden", options.hidden(),
                                       4 * sizes.width, kMaxHidden}));
  if (sizes.width % sizes.heads != 0) {
    return Refuse("heads ", sizes.heads, " must divide the width ", sizes.width,
                  "; change one of them");
  }
  if (!(sizes.dropout >= 0 && sizes.dropout < 1)) {
    return Refuse("dropout ", sizes.dropout, " must be at least 0 and below 1");
  }
  return sizes;
}

class TransformerWriter {
 public:
  TransformerWriter(const BlockSizes& sizes, const BlockStyle& style,
                    v1::ModelSpec& spec)
      : sizes_(sizes), style_(style), layers_(spec) {}

  LayerList& layers() { return layers_; }

  // Adds a learned vector for each of `length` positions. 0 stands for the
  // number of tokens.
  void AddPositions(const char* name, int64_t length) {
    v1::Layer* layer = layers_.Add(name);
    layer->mutable_positions()->set_length(length);
    layer->set_initial_deviation(kDeviation);
  }

  void AddNorm(absl::string_view name) {
    layers_.Add(name)->mutable_layer_norm()->set_epsilon(style_.epsilon);
  }

  void AddProduct(absl::string_view name, int64_t units,
                  double deviation = kDeviation) {
    v1::Layer* layer = layers_.Add(name);
    layer->set_initial_weight(v1::Layer::NORMAL);
    layer->set_initial_deviation(deviation);
    layer->mutable_dense()->set_units(units);
  }

  // Adds a dropout, unless nothing drops out.
  void AddDropout(absl::string_view name) {
    if (sizes_.dropout == 0) return;
    layers_.Add(name)->mutable_dropout()->set_probability(sizes_.dropout);
  }

  // Adds the block called `name`, such as "blocks.0".
  void AddBlock(const std::string& name) {
    const BlockNames& names = style_.names;
    const auto in_block = [&name](absl::string_view part) {
      return absl::StrCat(name, ".", part);
    };
    std::string from = layers_.last();
    AddNorm(in_block(names.norm1));
    AddProduct(in_block(names.attend_in), 3 * sizes_.width);
    v1::Attention& attention =
        *layers_.Add(in_block(names.attend))->mutable_attention();
    attention.set_heads(sizes_.heads);
    attention.set_causal(style_.causal);
    AddProduct(in_block(names.attend_out), sizes_.width, style_.end_deviation);
    AddDropout(in_block("attn.dropout"));
    layers_.Add(in_block("add1"))->mutable_add()->set_from(from);

    from = layers_.last();
    AddNorm(in_block(names.norm2));
    AddProduct(in_block(names.widen), sizes_.hidden);
    layers_.Add(in_block(names.gelu))->mutable_gelu();
    if (style_.drops_hidden) AddDropout(in_block("mlp.dropout1"));
    AddProduct(in_block(names.narrow), sizes_.width, style_.end_deviation);
    AddDropout(in_block("mlp.dropout"));
    layers_.Add(in_block("add2"))->mutable_add()->set_from(from);
  }

 private:
  const BlockSizes sizes_;
  const BlockStyle style_;
  LayerList layers_;
};

// Checks that patches of this size tile the image.
absl::Status CheckPatches(int64_t patch, const v1::ModelSpec& spec) {
  if (spec.input_shape_size() != 3) {
    return Refuse("input_shape has ", spec.input_shape_size(),
                  " dimensions; write [channels, height, width]");
  }
  const int64_t height = spec.input_shape(1), width = spec.input_shape(2);
  if (height < 1 || width < 1 || height % patch != 0 || width % patch != 0) {
    return Refuse("patch ", patch, " must divide both sides of the ", height,
                  " x ", width, " image; change patch or input_shape");
  }
  const int64_t rows = height / patch, columns = width / patch;
  if (rows <= kMaxTokens && columns <= kMaxTokens &&
      rows * columns <= kMaxTokens) {
    return absl::OkStatus();
  }
  return Refuse("the image has ", rows, " x ", columns, " patches; at most ",
                kMaxTokens, " are possible; use a larger patch");
}

// Checks that input_shape is one sequence within the context.
absl::Status CheckSequence(int64_t context, const v1::ModelSpec& spec) {
  if (spec.input_shape_size() != 1) {
    return Refuse("input_shape has ", spec.input_shape_size(),
                  " dimensions; write [tokens]");
  }
  if (spec.input_shape(0) <= context) return absl::OkStatus();
  return Refuse("input_shape has ", spec.input_shape(0),
                " tokens, but context is ", context,
                "; write a larger context or a shorter input_shape");
}

}  // namespace

absl::Status AddVisionTransformer(const v1::VisionTransformer& options,
                                  v1::ModelSpec& spec) {
  ASSIGN_OR_RETURN(const BlockSizes sizes,
                   ReadSizes(options, {.width = 192, .depth = 12, .heads = 3}));
  ASSIGN_OR_RETURN(const int64_t patch,
                   Read({"patch", options.patch(), 16, kMaxTokenWidth}));
  ASSIGN_OR_RETURN(const int64_t classes,
                   Read({"classes", options.classes(), 1000, kMaxClasses}));
  if (spec.input_shape().empty()) {
    for (const int64_t size : {3, 224, 224}) spec.add_input_shape(size);
  }
  RETURN_IF_ERROR(CheckPatches(patch, spec));

  TransformerWriter writer(
      sizes, {.names = kTimmNames, .epsilon = 1e-6, .drops_hidden = true},
      spec);
  LayerList& layers = writer.layers();
  v1::Conv2d& patches = *layers.Add("patch_embed.proj")->mutable_conv2d();
  patches.set_filters(sizes.width);
  patches.add_kernel(patch);
  patches.add_stride(patch);
  layers.Add("patch_embed.tokens")->mutable_image_tokens();
  if (!options.mean_tokens()) {
    v1::Layer* token = layers.Add("cls_token");
    token->mutable_class_token();
    token->set_initial_deviation(kClassDeviation);
  }
  writer.AddPositions("pos_embed", 0);
  writer.AddDropout("pos_drop");
  for (int64_t i = 0; i < sizes.depth; ++i) {
    writer.AddBlock(absl::StrCat("blocks.", i));
  }
  if (options.mean_tokens()) {
    layers.Add("mean")->mutable_mean_tokens();
    writer.AddNorm("fc_norm");
  } else {
    writer.AddNorm("norm");
    layers.Add("pick")->mutable_pick_token();
  }
  writer.AddProduct("head", classes);
  return absl::OkStatus();
}

absl::Status AddGpt(const v1::Gpt& options, v1::ModelSpec& spec) {
  ASSIGN_OR_RETURN(const BlockSizes sizes,
                   ReadSizes(options, {.width = 128, .depth = 4, .heads = 4}));
  ASSIGN_OR_RETURN(
      const int64_t vocabulary,
      Read({"vocabulary", options.vocabulary(), 256, kMaxVocabulary}));
  ASSIGN_OR_RETURN(const int64_t context,
                   Read({"context", options.context(), 64, kMaxTokens}));
  if (spec.input_shape().empty()) spec.add_input_shape(context);
  RETURN_IF_ERROR(CheckSequence(context, spec));

  const double branches = 2 * static_cast<double>(sizes.depth);
  TransformerWriter writer(sizes,
                           {.names = kNanoGptNames,
                            .causal = true,
                            .end_deviation = kDeviation / std::sqrt(branches)},
                           spec);
  LayerList& layers = writer.layers();
  v1::Layer* tokens = layers.Add("wte");
  tokens->mutable_embedding()->set_entries(vocabulary);
  tokens->mutable_embedding()->set_width(sizes.width);
  tokens->set_initial_deviation(kDeviation);
  writer.AddPositions("wpe", context);
  writer.AddDropout("drop");
  for (int64_t i = 0; i < sizes.depth; ++i) {
    writer.AddBlock(absl::StrCat("h.", i));
  }
  writer.AddNorm("ln_f");
  layers.Add("lm_head")->mutable_dense()->set_tied_to("wte");
  return absl::OkStatus();
}

}  // namespace gpupool::engine
