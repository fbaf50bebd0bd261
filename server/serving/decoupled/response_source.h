// The interface of what a decoupled version answers to one request: a known
// number of responses, each with some of the outputs.
//
// Thread-safety: one thread at a time. Ownership: the executor's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace gpupool::server {

// A response. The outputs are in HeldType of their types, and their memory is
// the source's.
struct SourcedResponse {
  std::vector<absl::Span<const std::byte>> outputs;
  std::vector<std::vector<int64_t>> shapes;  // one for each output
  std::vector<bool> has_output;              // the same
};

class ResponseSource {
 public:
  virtual ~ResponseSource() = default;

  virtual uint32_t count() const = 0;
  // Returns the time before which the response must not be given.
  virtual absl::Time DueAt(uint32_t /*index*/) const {
    return absl::InfinitePast();
  }
  // Returns the response, which is valid until the next call.
  virtual SourcedResponse At(uint32_t index) = 0;
};

}  // namespace gpupool::server
