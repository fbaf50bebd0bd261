#include "tests/engine/testing/graph_testing.h"

#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "engine/base/check.h"
#include "engine/base/philox.h"
#include "google/protobuf/text_format.h"

namespace gpupool::engine::testing {

v1::ModelSpec ModelFromText(const std::string& text) {
  v1::ModelSpec spec;
  GPUPOOL_CHECK(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

v1::TrainingSpec TrainingFromText(const std::string& text) {
  v1::TrainingSpec spec;
  GPUPOOL_CHECK(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

v1::ModelSpec DigitsModel() {
  return ModelFromText(R"pb(
    input_shape: [ 1, 8, 8 ]
    layers { conv2d { filters: 4 kernel: 3 padding: 1 } }
    layers { batch_norm {} }
    layers { relu {} }
    layers { max_pool { kernel: 2 } }
    layers { flatten {} }
    layers { dense { units: 16 } }
    layers { relu {} }
    layers { dropout { probability: 0.25 } }
    layers { dense { units: 3 } }
  )pb");
}

reference::Numbers RandomNumbers(int64_t count, uint64_t seed, double low,
                                 double high) {
  Philox philox(seed);
  reference::Numbers numbers(static_cast<size_t>(count));
  for (double& x : numbers) x = low + (high - low) * philox.NextDouble();
  return numbers;
}

reference::NamedNumbers RandomPersistents(const Graph& graph, uint64_t seed) {
  reference::NamedNumbers result;
  for (const Value& value : graph.values()) {
    if (value.kind != ValueKind::kPersistent) continue;
    const bool positive = absl::EndsWith(value.name, "running_var") ||
                          absl::EndsWith(value.name, "adam.v");
    result[value.name] = RandomNumbers(value.shape.elements(),
                                       seed ^ PhiloxNameIndex(value.name),
                                       positive ? 0.5 : -1, positive ? 1.5 : 1);
  }
  return result;
}

reference::NamedNumbers InitialPersistents(const ModelGraph& model,
                                           uint64_t seed) {
  reference::NamedNumbers result;
  for (const PersistentSpec& persistent : model.persistents) {
    const Initializer& begin = persistent.initializer;
    const int64_t count = persistent.shape.elements();
    if (begin.kind == Initializer::Kind::kUniform) {
      result[persistent.name] =
          RandomNumbers(count, seed ^ PhiloxNameIndex(persistent.name),
                        -begin.bound, begin.bound);
    } else if (begin.kind == Initializer::Kind::kNormal) {
      // Uniform numbers of the same variance are as good here.
      const double bound = begin.deviation * std::sqrt(3.0);
      result[persistent.name] = RandomNumbers(
          count, seed ^ PhiloxNameIndex(persistent.name), -bound, bound);
    } else {
      result[persistent.name].assign(static_cast<size_t>(count), begin.value);
    }
  }
  return result;
}

reference::NamedNumbers RandomInputs(const Graph& graph, uint64_t seed,
                                     int64_t classes) {
  reference::NamedNumbers result;
  for (const Value& value : graph.values()) {
    if (value.kind != ValueKind::kInput) continue;
    reference::Numbers& numbers = result[value.name];
    numbers = RandomNumbers(value.shape.elements(),
                            seed ^ PhiloxNameIndex(value.name));
    const bool tokens = value.name == "input" && value.dtype == DType::kInt64;
    if (value.name == "labels" || tokens) {
      for (double& x : numbers) {
        x = std::floor((x + 1) / 2 * static_cast<double>(classes));
      }
    }
    if (value.name == "learning_rate") numbers = {0.01};
    if (value.name == "step") numbers = {1};
    if (value.name == "seed") numbers = {7};
    if (value.name == "row_count") {
      const Value* input = graph.FindValue("input");
      numbers = {input == nullptr ? 1.0 : static_cast<double>(input->shape[0])};
    }
  }
  return result;
}

double Distance(const reference::Numbers& a, const reference::Numbers& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]) / (1 + std::abs(b[i]));
    if (std::isnan(d)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, d);
  }
  return worst;
}

}  // namespace gpupool::engine::testing
