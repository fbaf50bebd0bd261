// A loaded model of texts: the server computes it, so the worker only knows its
// inputs and outputs.
//
// Thread-safety: as ServedModel.
#pragma once

#include <string>
#include <vector>

#include "engine/served_model.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {

class LoadedText : public ServedModel {
 public:
  explicit LoadedText(const v1::Plan& plan)
      : inputs_(plan.inputs().begin(), plan.inputs().end()),
        outputs_(plan.outputs().begin(), plan.outputs().end()) {}

  const std::vector<v1::TensorSpec>& inputs() const override { return inputs_; }
  const std::vector<v1::TensorSpec>& outputs() const override {
    return outputs_;
  }
  const std::vector<std::string>& dimensions() const override {
    return dimensions_;
  }
  // It takes nothing of the device.
  uint64_t measured_bytes() const override { return 0; }
  absl::Status Infer(const InferenceBatch&, InferenceAnswer*) override {
    return absl::FailedPreconditionError(
        "a model of texts is computed by the server, not by a worker");
  }

 private:
  const std::vector<v1::TensorSpec> inputs_;
  const std::vector<v1::TensorSpec> outputs_;
  const std::vector<std::string> dimensions_;  // always empty
};

}  // namespace gpupool::engine
