#include "engine/serving/bound_numbers.h"

#include "absl/strings/str_cat.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine {

absl::StatusOr<std::string> PlannedBoundBytes(
    const std::map<std::string, std::vector<double>>& numbers,
    const std::vector<ServedPort>& inputs) {
  std::string bytes;
  for (const ServedPort& input : inputs) {
    if (!input.bound) continue;
    const uint64_t size = input.port.shape.bytes(input.port.dtype);
    if (size > kMaxBoundBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "bound input '", input.port.name, "' has ", size, " bytes; at most ",
          kMaxBoundBytes, " can be served, since each of its values needs a ",
          "program"));
    }
    const size_t at = bytes.size();
    bytes.resize(at + size);
    WriteFromDoubles(input.port.dtype, numbers.at(input.port.name), 1,
                     reinterpret_cast<std::byte*>(bytes.data() + at));
  }
  return bytes;
}

absl::Status CheckKeptBoundBytes(uint64_t bytes, uint32_t max_programs) {
  if (bytes == 0 || max_programs <= kMaxKeptBoundBytes / bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the bound inputs have ", bytes, " bytes, which each of ", max_programs,
      " programs keeps; all together may keep ", kMaxKeptBoundBytes,
      ": serve the model with at most ", kMaxKeptBoundBytes / bytes,
      " programs (max_programs, --max-programs)"));
}

absl::StatusOr<absl::flat_hash_map<std::string, std::vector<double>>>
BoundNumbers(const std::vector<ServedPort>& inputs, absl::string_view bytes) {
  absl::flat_hash_map<std::string, std::vector<double>> numbers;
  size_t at = 0;
  for (const ServedPort& input : inputs) {
    if (!input.bound) continue;
    const uint64_t size = input.port.shape.bytes(input.port.dtype);
    // Too few bytes; the error is returned below.
    if (bytes.size() - at < size) break;
    std::vector<double>& values = numbers[input.port.name];
    values.resize(static_cast<size_t>(input.port.shape.elements()));
    ReadAsDoubles(input.port.dtype,
                  reinterpret_cast<const std::byte*>(bytes.data() + at), 1,
                  absl::MakeSpan(values));
    at += size;
  }
  if (at == bytes.size()) return numbers;
  return absl::InvalidArgumentError(
      absl::StrCat("the bound inputs have ", bytes.size(), " bytes, not ", at));
}

}  // namespace gpupool::engine
