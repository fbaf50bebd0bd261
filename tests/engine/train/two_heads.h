// A small net with two inputs (tokens, numbers) and two outputs (classes,
// numbers), and a dataset for it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"
#include "tests/engine/data/files.h"
#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine {

inline constexpr int kTwoHeadsRows = 12;

// Returns the net as a serialized ONNX file.
inline std::string TwoHeadsOnnx() {
  onnx::ModelProto model = onnx_import::ModelOfGraph(
      "(int64[N, 4] ids, float[N, 3] x) => "
      "(float[N, 3] logits, float[N, 2] score) "
      "{ e = Gather(table, ids) m = ReduceMean<axes = [1], keepdims = 0>(e) "
      "j = Concat<axis = 1>(m, x) p = MatMul(j, w) q = Add(p, b) h = Tanh(q) "
      "logits = MatMul(h, c) score = MatMul(h, d) }");
  const auto add = [&model](const std::string& name,
                            const std::vector<int64_t>& shape, int seed) {
    auto* tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    int64_t count = 1;
    for (int64_t dimension : shape) {
      tensor->add_dims(dimension);
      count *= dimension;
    }
    for (int i = 0; i < count; ++i) {
      tensor->add_float_data(static_cast<float>((i * 7 + seed) % 11 - 5) / 10);
    }
  };
  add("table", {6, 3}, 1);
  add("w", {6, 5}, 2);
  add("b", {5}, 3);
  add("c", {5, 3}, 4);
  add("d", {5, 2}, 5);
  return model.SerializeAsString();
}

// Returns an archive with the arrays "tokens", "numbers", "label", "score".
inline std::string TwoHeadsNpz(bool deflated = false) {
  std::string tokens, label;
  std::vector<float> numbers, score;
  for (int i = 0; i < kTwoHeadsRows; ++i) {
    for (int k = 0; k < 4; ++k) {
      tokens += files::Little(static_cast<uint64_t>((i * 5 + k * 3) % 6), 8);
    }
    const auto x = [i](int j) {
      return static_cast<float>((i * 7 + j * 13) % 9) / 4 - 1;
    };
    for (int j = 0; j < 3; ++j) numbers.push_back(x(j));
    label += static_cast<char>((i * 2 + 1) % 3);
    score.push_back(x(0) - x(1));
    score.push_back(0.5f * static_cast<float>((i * 2 + 1) % 3));
  }
  const auto bytes = [](const std::vector<float>& values) {
    return std::string(reinterpret_cast<const char*>(values.data()),
                       values.size() * sizeof(float));
  };
  return files::Zip(
      {{"tokens.npy", files::Npy("<i8", "(12, 4)", tokens)},
       {"numbers.npy", files::Npy("<f4", "(12, 3)", bytes(numbers))},
       {"label.npy", files::Npy("|u1", "(12,)", label)},
       {"score.npy", files::Npy("<f4", "(12, 2)", bytes(score))}},
      deflated);
}

// Names the arrays of TwoHeadsNpz.
inline void NameTwoHeads(v1::DatasetLayout& layout) {
  (*layout.mutable_input_arrays())["ids"] = "tokens";
  (*layout.mutable_input_arrays())["x"] = "numbers";
  (*layout.mutable_target_arrays())["label"] = "label";
  (*layout.mutable_target_arrays())["score"] = "score";
}

// Adds cross_entropy of "logits" and 0.3 * mean_squared_error of "score".
inline void AddTwoLosses(v1::TrainingSpec& training) {
  v1::OutputLoss* classes = training.add_losses();
  classes->set_output("logits");
  classes->set_target("label");
  classes->mutable_cross_entropy();
  v1::OutputLoss* numbers = training.add_losses();
  numbers->set_output("score");
  numbers->set_target("score");
  numbers->set_weight(0.3);
  numbers->mutable_mean_squared_error();
}

}  // namespace gpupool::engine
