// Models that tests and benchmarks build from layers and ops when a chain of
// layers is not enough: branches, embeddings, attention. They have no file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/layers/layer_kinds.h"
#include "engine/model/model_source.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine::testing {

// Returns a source whose graphs `build` makes. It stores no initial weights and
// cannot be exported.
std::shared_ptr<const ModelSource> BuiltModel(
    std::function<ModelGraph(const BuildOptions&)> build);

// A model under construction. Each function adds a part to the given values.
// Aborts if parts do not fit each other. Belongs to one thread.
class ModelAssembly {
 public:
  explicit ModelAssembly(const BuildOptions& options);
  ModelAssembly(const ModelAssembly&) = delete;
  ModelAssembly& operator=(const ModelAssembly&) = delete;

  // Adds an input. `example` is the shape of one example, without the batch.
  ValueId Input(const std::string& name, DType dtype, const Shape& example);
  // Adds a weight with initial values U(-bound, bound).
  ValueId Weight(const std::string& name, const Shape& shape, double bound);
  ValueId Layer(const std::string& name, const v1::Layer& layer, ValueId x);
  ValueId Emit(Op op, const ValueIds& inputs, Attributes attributes = {});

  ValueId Dense(const std::string& name, ValueId x, int64_t units);
  ValueId Add(ValueId a, ValueId b) { return Emit(Op::kAdd, {a, b}); }
  ValueId Reshape(ValueId x, const Shape& shape) {
    return Emit(Op::kReshape, {x}, ShapeAttributes{shape});
  }

  const Shape& shape(ValueId value) const { return builder_.shape(value); }
  int64_t batch() const { return options_.batch; }
  bool training() const { return options_.training; }

  // Returns the model with this as its only output. Nothing can be added
  // afterwards.
  ModelGraph Finish(const std::string& name, ValueId output);

 private:
  const BuildOptions options_;
  ModelGraph model_;
  GraphBuilder builder_;
  LayerKinds kinds_;
  int layers_ = 0;
};

}  // namespace gpupool::engine::testing
