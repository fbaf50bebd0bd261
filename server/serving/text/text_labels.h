// LabelEncoder of ONNX: a table from texts or numbers to others.
//
// Thread-safety: immutable. Ownership: borrows the tables of the node.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/model.pb.h"
#include "server/serving/text/text_memory.h"
#include "server/serving/text/text_tensor.h"

namespace gpupool::server {

class TextLabels {
 public:
  // Takes keys, values and the value of all other keys from the tables of a
  // node. INVALID_ARGUMENT when they are not three tensors of which the first
  // two have as many elements, and the last has one element of the type of the
  // second.
  static absl::StatusOr<TextLabels> Create(const v1::TextProgram::Node& node);

  // Returns the values of the elements. Of equal keys the last one counts. NaN
  // equals NaN. INVALID_ARGUMENT for elements of another kind than the keys.
  absl::StatusOr<TextTensor> Run(const TextTensor& tensor,
                                 TextMemory& memory) const;

 private:
  TextLabels() = default;
  size_t Find(absl::string_view key) const;
  size_t Find(int64_t key) const;
  size_t Find(double key) const;

  TextTensor keys_;
  TextTensor values_;  // the last one is that of all other keys
  // Places of keys in values_.
  absl::flat_hash_map<absl::string_view, size_t> texts_;
  absl::flat_hash_map<int64_t, size_t> integers_;
  absl::flat_hash_map<uint64_t, size_t> floats_;  // by their bits
};

}  // namespace gpupool::server
