// Scalar inputs and outputs of a training's programs: the step, the learning
// rate, the loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/check.h"
#include "engine/runtime/executor.h"

namespace gpupool::engine {

// Sets an input. Does nothing when the program has none of that name.
template <typename T>
void SetScalar(const Executor& executor, absl::string_view name, T value) {
  const absl::Span<std::byte> bytes = executor.input(name);
  if (bytes.empty()) return;
  GPUPOOL_CHECK(bytes.size() == sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
}

// Reads an output, which the program must have.
template <typename T>
T GetScalar(const Executor& executor, absl::string_view name) {
  const absl::Span<const std::byte> bytes = executor.output(name);
  GPUPOOL_CHECK(bytes.size() == sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// Reads an output; returns 0 when the program has none of that name.
inline int64_t CountOf(const Executor& executor, absl::string_view name) {
  return executor.output(name).empty() ? 0 : GetScalar<int64_t>(executor, name);
}

}  // namespace gpupool::engine
