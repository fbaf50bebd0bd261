// TfIdfVectorizer of ONNX: counts n-grams of texts or integers.
//
// Thread-safety: immutable. Ownership: borrows the options.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gpupool/v1/model.pb.h"
#include "server/serving/text/text_memory.h"
#include "server/serving/text/text_tensor.h"

namespace gpupool::server {

class TextTfidf {
 public:
  // Longest n-grams, and most elements that are skipped between two of one.
  static constexpr int64_t kMostLength = 16;
  static constexpr int64_t kMostSkips = 16;

  // INVALID_ARGUMENT when the lists of the options do not fit each other.
  static absl::StatusOr<TextTfidf> Create(
      const v1::TextProgram::Tfidf& options);

  // Counts the n-grams of the shape [C], or of each row of [N, C]. The result
  // has the same shape with the number of outputs as its last size, in FLOAT32.
  // An n-gram of one element is counted once, whatever the skips are.
  absl::StatusOr<TextTensor> Run(const TextTensor& tensor,
                                 TextMemory& memory) const;

 private:
  // An element's number among those of the pool; n-grams are lists of them.
  using Gram = std::vector<int64_t>;
  static constexpr int64_t kUnknown = -1;

  explicit TextTfidf(const v1::TextProgram::Tfidf& options)
      : options_(options) {}
  absl::Status AddGrams();
  int64_t NumberOf(absl::string_view text) const;
  int64_t NumberOf(int64_t number) const;
  void Count(absl::Span<const int64_t> row, absl::Span<int64_t> counts) const;
  double Weigh(int64_t count, size_t output) const;

  const v1::TextProgram::Tfidf& options_;
  TextTensor pool_;
  absl::flat_hash_map<absl::string_view, int64_t> text_numbers_;
  absl::flat_hash_map<int64_t, int64_t> integer_numbers_;
  absl::flat_hash_map<Gram, size_t> outputs_;  // of n-grams
  std::vector<double> weights_;                // of outputs
  int64_t width_ = 0;                          // number of outputs
};

}  // namespace gpupool::server
