// A TextProgram that is checked and ready to run.
//
// Thread-safety: immutable. Ownership: owns the program, of which its parts are
// views.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "gpupool/v1/model.pb.h"
#include "server/serving/text/text_labels.h"
#include "server/serving/text/text_memory.h"
#include "server/serving/text/text_normalizer.h"
#include "server/serving/text/text_tensor.h"
#include "server/serving/text/text_tfidf.h"

namespace gpupool::server {

class TextRunner {
 public:
  // Most nodes of a program.
  static constexpr int kMostNodes = 1024;
  // Most inputs of a node.
  static constexpr int kMostInputs = 256;

  // Checks the program for a model with so many inputs. INVALID_ARGUMENT names
  // the node, or the constant, and what is wrong.
  static absl::StatusOr<std::shared_ptr<const TextRunner>> Create(
      const v1::TextProgram& program, int inputs);

  TextRunner(const TextRunner&) = delete;
  TextRunner& operator=(const TextRunner&) = delete;

  // Computes the outputs of the model. Their texts are views of the inputs, of
  // the runner and of the memory. Errors name the node:
  //   * INVALID_ARGUMENT: the values do not fit it
  //   * RESOURCE_EXHAUSTED: they are too large
  absl::StatusOr<std::vector<TextTensor>> Run(std::vector<TextTensor> inputs,
                                              TextMemory& memory) const;

 private:
  // Tables that a node prepares once.
  using Prepared =
      std::variant<std::monostate, TextLabels, TextNormalizer, TextTfidf>;

  explicit TextRunner(const v1::TextProgram& program) : program_(program) {}
  absl::Status Prepare(int inputs);
  absl::Status CheckNode(const v1::TextProgram::Node& node,
                         uint32_t values) const;
  static absl::StatusOr<Prepared> PrepareNode(
      const v1::TextProgram::Node& node);
  absl::StatusOr<TextTensor> RunNode(int index,
                                     absl::Span<const TextTensor* const> inputs,
                                     TextMemory& memory) const;

  const v1::TextProgram program_;
  std::vector<TextTensor> constants_;
  std::vector<Prepared> prepared_;  // of each node
};

}  // namespace gpupool::server
