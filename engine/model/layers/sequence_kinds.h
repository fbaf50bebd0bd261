// Adds the layers of sequences to the graph: embeddings, attention, and the
// layers between them. Internal to engine/model.
//
// Thread-safety: one thread at a time. Lives during one BuildModel call.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/graph/builder.h"
#include "engine/model/layers/layer_weights.h"

namespace gpupool::v1 {
class Attention;
class Layer;
class PickToken;
}  // namespace gpupool::v1

namespace gpupool::engine {

class SequenceKinds {
 public:
  // Both pointers must outlive the object. `training`: whether the gradients of
  // the graph will be taken.
  SequenceKinds(bool training, GraphBuilder* builder, LayerWeights* weights)
      : training_(training), builder_(builder), weights_(weights) {}

  // Add a layer, called `name` if it has weights, to x [batch, ...], and return
  // its output. INVALID_ARGUMENT if the layer's fields or x do not fit.
  absl::StatusOr<ValueId> Embedding(const v1::Layer& layer,
                                    absl::string_view name, ValueId x);
  absl::StatusOr<ValueId> ImageTokens(ValueId x);
  absl::StatusOr<ValueId> ClassToken(const v1::Layer& layer,
                                     absl::string_view name, ValueId x);
  absl::StatusOr<ValueId> Positions(const v1::Layer& layer,
                                    absl::string_view name, ValueId x);
  absl::StatusOr<ValueId> Attention(const v1::Attention& attention, ValueId x);
  absl::StatusOr<ValueId> PickToken(const v1::PickToken& pick, ValueId x);
  absl::StatusOr<ValueId> MeanTokens(ValueId x);

  // Returns the table [entries, width] of the embedding of that name. It is
  // invalid if no such layer was added.
  ValueId Table(absl::string_view name) const;

 private:
  // Returns the part from column `start` on of x [batch, tokens, 3 * width] as
  // [batch, heads, tokens, width / heads].
  absl::StatusOr<ValueId> Heads(ValueId x, int64_t start, int64_t heads);

  const bool training_;
  GraphBuilder* builder_;
  LayerWeights* weights_;
  absl::flat_hash_map<std::string, ValueId> tables_;  // by embedding
};

}  // namespace gpupool::engine
