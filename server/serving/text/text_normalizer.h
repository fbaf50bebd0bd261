// StringNormalizer of ONNX: removes stopwords, and changes the case of texts.
//
// Thread-safety: immutable.
#pragma once

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/model.pb.h"
#include "server/serving/text/text_memory.h"
#include "server/serving/text/text_tensor.h"

namespace gpupool::server {

// Returns the text with the case of every character changed, as Unicode maps
// single characters and whatever the locale is. Bytes that are not UTF-8 stay.
std::string ChangeCase(absl::string_view text,
                       v1::TextProgram::Normalizer::Case change);

class TextNormalizer {
 public:
  explicit TextNormalizer(v1::TextProgram::Normalizer options);

  // Normalizes texts of the shape [C] or [1, C]. A tensor of which nothing is
  // left has one empty text. INVALID_ARGUMENT for another type or shape.
  absl::StatusOr<TextTensor> Run(const TextTensor& tensor,
                                 TextMemory& memory) const;

 private:
  bool IsStopword(absl::string_view text) const;

  const v1::TextProgram::Normalizer options_;
  absl::flat_hash_set<std::string> stopwords_;  // lower case if case is ignored
};

}  // namespace gpupool::server
