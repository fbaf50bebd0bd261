// Models that tests and benchmarks put together from layers and ops, where a
// chain of layers is not enough: branches, tables of embeddings, attention.
// They have no file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/import/layer_kinds.h"
#include "engine/import/model_source.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine::testing {

// The source whose graphs `build` makes. What it starts from is stored nowhere,
// and it cannot be exported.
std::shared_ptr<const ModelSource> BuiltModel(
    std::function<ModelGraph(const BuildOptions&)> build);

// A model in the making, each part on what the caller says. Aborts where parts
// do not fit each other. Belongs to one thread.
class ModelAssembly {
 public:
  explicit ModelAssembly(const BuildOptions& options);
  ModelAssembly(const ModelAssembly&) = delete;
  ModelAssembly& operator=(const ModelAssembly&) = delete;

  // Of one example; the batch comes before it.
  ValueId Input(const std::string& name, DType dtype, const Shape& example);
  // U(-bound, bound).
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

  // The model whose only output this is. Nothing can be added afterwards.
  ModelGraph Finish(const std::string& name, ValueId output);

 private:
  const BuildOptions options_;
  ModelGraph model_;
  GraphBuilder builder_;
  LayerKinds kinds_;
  int layers_ = 0;
};

}  // namespace gpupool::engine::testing
