// Served versions for tests, with one float input and one float output.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "server/serving/batcher.h"
#include "server/serving/model_registry.h"

namespace gpupool::server {

inline v1::TensorSpec FloatSpec(const std::string& name, int64_t features) {
  v1::TensorSpec spec;
  spec.set_name(name);
  spec.set_data_type(v1::FLOAT32);
  spec.add_shape(-1);
  spec.add_shape(features);
  return spec;
}

inline v1::ModelVersion MakeModelVersion(const std::string& model,
                                         uint64_t version, uint64_t id) {
  v1::ModelVersion message;
  message.set_model(model);
  message.set_version(version);
  message.set_id(id);
  message.set_state(v1::READY);
  *message.mutable_plan()->add_inputs() = FloatSpec("input", 2);
  *message.mutable_plan()->add_outputs() = FloatSpec("output", 2);
  return message;
}

inline VersionHandle MakeServedVersion(const v1::ModelVersion& version,
                                       WakeTimer* timer) {
  VersionFacts facts = *MakeVersionFacts(version);
  BatcherOptions options;
  options.batch.max_batch_size = 32;
  options.label = facts.label;
  options.version_id = version.id();
  options.inputs = facts.inputs;
  options.outputs = facts.outputs;
  auto batcher = std::make_shared<Batcher>(std::move(options), timer, nullptr);
  return std::make_shared<ServedVersion>(std::move(facts), std::move(batcher));
}

inline VersionHandle MakeServedVersion(const std::string& model,
                                       uint64_t version, uint64_t id,
                                       WakeTimer* timer) {
  return MakeServedVersion(MakeModelVersion(model, version, id), timer);
}

}  // namespace gpupool::server
