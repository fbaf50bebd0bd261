#include "engine/model/layers/sequence_kinds.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/model/layers/layer_checks.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

// Standard deviations of initial weights without initial_deviation.
constexpr double kEmbeddingDeviation = 1;
constexpr double kTokenDeviation = 0.02;

// Queries, keys and values.
constexpr int64_t kAttentionParts = 3;

}  // namespace

ValueId SequenceKinds::Table(absl::string_view name) const {
  const auto found = tables_.find(name);
  return found == tables_.end() ? ValueId{} : found->second;
}

absl::StatusOr<ValueId> SequenceKinds::Embedding(const v1::Layer& layer,
                                                 absl::string_view name,
                                                 ValueId x) {
  const v1::Embedding& embedding = layer.embedding();
  if (builder_->value(x).dtype != DType::kInt64) {
    return Refuse(
        "reads whole numbers, which only the model's input has; make it the "
        "first layer, or write input: input beside it");
  }
  RETURN_IF_ERROR(CheckCount("entries", embedding.entries()));
  RETURN_IF_ERROR(CheckCount("width", embedding.width()));
  const int64_t dims[] = {embedding.entries(), embedding.width()};
  ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims));
  ASSIGN_OR_RETURN(
      const ValueId table,
      weights_->Add(absl::StrCat(name, ".weight"), shape, MemoryClass::kWeight,
                    InitialNormal(layer, kEmbeddingDeviation)));
  tables_[name] = table;
  return builder_->EmitOne(Op::kGather, {table, x}, AxisAttributes{0});
}

absl::StatusOr<ValueId> SequenceKinds::ImageTokens(ValueId x) {
  const Shape shape = builder_->shape(x);
  RETURN_IF_ERROR(CheckImage(shape));
  const Shape flat{shape[0], shape[1], shape[2] * shape[3]};
  ASSIGN_OR_RETURN(const ValueId pixels,
                   builder_->EmitOne(Op::kReshape, {x}, ShapeAttributes{flat}));
  return builder_->EmitOne(Op::kTranspose, {pixels},
                           TransposeAttributes{{0, 2, 1}});
}

absl::StatusOr<ValueId> SequenceKinds::ClassToken(const v1::Layer& layer,
                                                  absl::string_view name,
                                                  ValueId x) {
  const Shape shape = builder_->shape(x);
  RETURN_IF_ERROR(CheckTokens(shape));
  ASSIGN_OR_RETURN(const ValueId token,
                   weights_->Add(absl::StrCat(name, ".weight"), {shape[2]},
                                 MemoryClass::kWeight,
                                 InitialNormal(layer, kTokenDeviation)));
  const Shape one{shape[0], 1, shape[2]};
  ASSIGN_OR_RETURN(
      const ValueId tokens,
      builder_->EmitOne(Op::kBroadcast, {token}, ShapeAttributes{one}));
  return builder_->EmitOne(Op::kConcat, {tokens, x}, AxisAttributes{1});
}

absl::StatusOr<ValueId> SequenceKinds::Positions(const v1::Layer& layer,
                                                 absl::string_view name,
                                                 ValueId x) {
  const Shape shape = builder_->shape(x);
  RETURN_IF_ERROR(CheckTokens(shape));
  const int64_t given = layer.positions().length();
  const int64_t length = given == 0 ? shape[1] : given;
  if (length < shape[1]) {
    return Refuse("length is ", length, ", but its input has ", shape[1],
                  " tokens; write as many or more, or leave it out");
  }
  const int64_t dims[] = {length, shape[2]};
  ASSIGN_OR_RETURN(const Shape table_shape, Shape::Create(dims));
  ASSIGN_OR_RETURN(ValueId table,
                   weights_->Add(absl::StrCat(name, ".weight"), table_shape,
                                 MemoryClass::kWeight,
                                 InitialNormal(layer, kTokenDeviation)));
  if (length > shape[1]) {
    ASSIGN_OR_RETURN(
        table,
        builder_->EmitOne(Op::kSlice, {table},
                          SliceAttributes{.starts = {0, 0},
                                          .steps = {1, 1},
                                          .sizes = {shape[1], shape[2]}}));
  }
  return builder_->EmitOne(Op::kBinary, {x, table},
                           BinaryAttributes{BinaryFunction::kAdd});
}

absl::StatusOr<ValueId> SequenceKinds::Heads(ValueId x, int64_t start,
                                             int64_t heads) {
  const Shape shape = builder_->shape(x);
  const int64_t width = shape[2] / kAttentionParts;
  ASSIGN_OR_RETURN(
      const ValueId part,
      builder_->EmitOne(Op::kSlice, {x},
                        SliceAttributes{.starts = {0, 0, start},
                                        .steps = {1, 1, 1},
                                        .sizes = {shape[0], shape[1], width}}));
  const Shape split{shape[0], shape[1], heads, width / heads};
  ASSIGN_OR_RETURN(
      const ValueId by_head,
      builder_->EmitOne(Op::kReshape, {part}, ShapeAttributes{split}));
  return builder_->EmitOne(Op::kTranspose, {by_head},
                           TransposeAttributes{{0, 2, 1, 3}});
}

absl::StatusOr<ValueId> SequenceKinds::Attention(const v1::Attention& attention,
                                                 ValueId x) {
  const Shape shape = builder_->shape(x);
  RETURN_IF_ERROR(CheckTokens(shape));
  if (shape[2] % kAttentionParts != 0) {
    return Refuse(
        "needs queries, keys and values side by side, [tokens, 3 * width], but "
        "its input is ",
        ExampleShapeText(shape),
        "; let a dense with 3 * width units make them");
  }
  const int64_t width = shape[2] / kAttentionParts;
  const int64_t heads = attention.heads();
  RETURN_IF_ERROR(CheckCount("heads", heads));
  if (width % heads != 0) {
    return Refuse("heads ", heads, " must divide the width ", width,
                  ", which is a third of its input's");
  }
  ASSIGN_OR_RETURN(const ValueId queries, Heads(x, 0, heads));
  ASSIGN_OR_RETURN(const ValueId keys, Heads(x, width, heads));
  ASSIGN_OR_RETURN(const ValueId values, Heads(x, 2 * width, heads));
  const AttentionAttributes attributes{
      .scale = 1 / std::sqrt(static_cast<double>(width / heads)),
      .causal = attention.causal(),
      .with_lse = training_};
  ASSIGN_OR_RETURN(
      const ValueId y,
      builder_->EmitOne(Op::kAttention, {queries, keys, values}, attributes));
  ASSIGN_OR_RETURN(const ValueId by_token,
                   builder_->EmitOne(Op::kTranspose, {y},
                                     TransposeAttributes{{0, 2, 1, 3}}));
  const Shape joined{shape[0], shape[1], width};
  return builder_->EmitOne(Op::kReshape, {by_token}, ShapeAttributes{joined});
}

absl::StatusOr<ValueId> SequenceKinds::PickToken(const v1::PickToken& pick,
                                                 ValueId x) {
  const Shape shape = builder_->shape(x);
  RETURN_IF_ERROR(CheckTokens(shape));
  const int64_t tokens = shape[1];
  if (pick.index() < -tokens || pick.index() >= tokens) {
    return Refuse("index is ", pick.index(), ", but its input has ", tokens,
                  " tokens; write -", tokens, " .. ", tokens - 1);
  }
  const int64_t index = pick.index() < 0 ? pick.index() + tokens : pick.index();
  ASSIGN_OR_RETURN(
      const ValueId token,
      builder_->EmitOne(Op::kSlice, {x},
                        SliceAttributes{.starts = {0, index, 0},
                                        .steps = {1, 1, 1},
                                        .sizes = {shape[0], 1, shape[2]}}));
  const Shape flat{shape[0], shape[2]};
  return builder_->EmitOne(Op::kReshape, {token}, ShapeAttributes{flat});
}

absl::StatusOr<ValueId> SequenceKinds::MeanTokens(ValueId x) {
  RETURN_IF_ERROR(CheckTokens(builder_->shape(x)));
  return builder_->EmitOne(Op::kReduce, {x},
                           ReduceAttributes{ReduceFunction::kMean, {1}, false});
}

}  // namespace gpupool::engine
