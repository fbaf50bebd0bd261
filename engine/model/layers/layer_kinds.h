// Adds layers of each kind to the graph. Internal to engine/model.
//
// Thread-safety: one thread at a time. Lives during one BuildModel call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/graph/builder.h"
#include "engine/model/layers/layer_weights.h"
#include "engine/model/layers/persistent_spec.h"
#include "engine/model/layers/sequence_kinds.h"

namespace gpupool::v1 {
class Add;
class BatchNorm;
class Dense;
class Dropout;
class Layer;
class LayerNorm;
}  // namespace gpupool::v1

namespace gpupool::engine {

class LayerKinds {
 public:
  // Both pointers must outlive the object. `training`: whether layers behave as
  // in training, and the gradients of the graph will be taken.
  LayerKinds(bool training, GraphBuilder* builder,
             std::vector<PersistentSpec>* persistents)
      : training_(training),
        builder_(builder),
        weights_(builder, persistents),
        sequences_(training, builder, &weights_) {}
  LayerKinds(const LayerKinds&) = delete;
  LayerKinds& operator=(const LayerKinds&) = delete;

  // Records the output of layer `name`, to which later layers may refer.
  void Remember(absl::string_view name, ValueId value) {
    outputs_[name] = value;
  }

  // Returns the output of an earlier layer. CheckReferences must have accepted
  // the model.
  ValueId Output(absl::string_view name) const {
    return outputs_.find(name)->second;
  }

  // Adds layer `layer`, called `name`, to x [batch, ...]. Returns its output.
  // The builder's source must be set to `name`, and the layer that an `add`
  // names must have been remembered.
  absl::StatusOr<ValueId> Apply(const v1::Layer& layer, absl::string_view name,
                                ValueId x);

  // Adds a persistent value and records its initializer.
  absl::StatusOr<ValueId> Persistent(absl::string_view name, const Shape& shape,
                                     MemoryClass memory_class,
                                     const Initializer& initializer) {
    return weights_.Add(name, shape, memory_class, initializer);
  }

 private:
  using Name = absl::string_view;
  absl::StatusOr<ValueId> Dense(const v1::Layer& layer, Name name, ValueId x);
  // Returns the weight [units, in] of a dense layer: its own, or the table that
  // it is tied to.
  absl::StatusOr<ValueId> DenseWeight(const v1::Layer& layer, Name name,
                                      int64_t in);
  absl::StatusOr<ValueId> TiedWeight(const v1::Dense& dense, int64_t in) const;
  absl::StatusOr<ValueId> Conv2d(const v1::Layer& layer, Name name, ValueId x);
  // Adds MaxPool or AvgPool.
  template <typename PoolProto>
  absl::StatusOr<ValueId> Pool(Op op, const PoolProto& pool, ValueId x);
  absl::StatusOr<ValueId> Flatten(ValueId x);
  absl::StatusOr<ValueId> BatchNorm(const v1::BatchNorm& norm, Name name,
                                    ValueId x);
  absl::StatusOr<ValueId> LayerNorm(const v1::LayerNorm& norm, Name name,
                                    ValueId x);
  absl::StatusOr<ValueId> Dropout(const v1::Dropout& dropout, Name name,
                                  ValueId x);
  absl::StatusOr<ValueId> Add(const v1::Add& add, ValueId x);

  absl::Status NeedImage(ValueId x) const;
  // Checks that the value is not the model's input of whole numbers.
  absl::Status NeedFractions(ValueId x) const;
  // Adds "<layer>.weight" of ones or zeros and "<layer>.bias" of zeros.
  absl::StatusOr<ValueIds> NormWeights(Name name, int64_t size);

  const bool training_;
  GraphBuilder* builder_;
  LayerWeights weights_;
  SequenceKinds sequences_;
  absl::flat_hash_map<std::string, ValueId> outputs_;
};

}  // namespace gpupool::engine
