// Private to server/http: the form in which a request wants the outputs, as
// JSON or as binary data.
//
// Thread-safety: as a value's.
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"

namespace gpupool::server {

class OutputForms {
 public:
  // Sets the form of outputs that have none of their own.
  void SetBinary(bool binary) { binary_ = binary; }
  void SetBinary(const std::string& output, bool binary) {
    outputs_[output] = binary;
  }

  bool IsBinary(const std::string& output) const {
    const auto it = outputs_.find(output);
    return it == outputs_.end() ? binary_ : it->second;
  }

 private:
  bool binary_ = false;
  absl::flat_hash_map<std::string, bool> outputs_;
};

}  // namespace gpupool::server
