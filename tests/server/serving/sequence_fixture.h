// Versions that serve sequences, for tests.
#pragma once

#include <string>

#include "tests/server/serving/ensemble_fixture.h"

namespace gpupool::server {

// Returns a version with the input x, the state s, the output y and the output
// t, which is the next state. All are FP32 [-1,2]. Sequences do not become idle
// while a test runs.
inline v1::ModelVersion SequenceVersion(const std::string& model) {
  v1::ModelVersion version = StepVersion(model, {"x", "s"}, {"y", "t"});
  auto* options = version.mutable_serving()->mutable_sequences();
  options->set_max_sequences(4);
  options->set_max_idle_microseconds(uint64_t{3600} * 1'000'000);
  auto* state = options->add_states();
  state->set_input("s");
  state->set_output("t");
  return version;
}

// Adds an FP32 input of one element.
inline void AddControl(v1::SequenceOptions::Control::Kind kind,
                       const std::string& name, v1::ModelVersion* version) {
  *version->mutable_plan()->add_inputs() = FloatSpec(name, 1);
  auto* control =
      version->mutable_serving()->mutable_sequences()->add_controls();
  control->set_kind(kind);
  control->set_input(name);
  control->set_true_value(1);
}

}  // namespace gpupool::server
