// A tensor of texts or numbers while a TextProgram computes.
//
// Thread-safety: as a value's. Ownership: texts are views, of requests, of
// constants of the program, or of what a run has made.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

// Names the list that has the elements of a data type.
enum class TextKind { kText, kInteger, kFloat };

// Returns the kind; INVALID_ARGUMENT for a type that no TextProgram has.
absl::StatusOr<TextKind> TextKindOf(v1::DataType type);

struct TextTensor {
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  // Elements in row-major order, in the list of the type's kind.
  std::vector<absl::string_view> texts;
  std::vector<int64_t> integers;
  std::vector<double> floats;

  TextKind kind() const;
  uint64_t size() const;  // number of elements

  // Calls `function` with the list of elements.
  template <typename Function>
  auto Visit(Function function) const {
    switch (kind()) {
      case TextKind::kText:
        return function(texts);
      case TextKind::kInteger:
        return function(integers);
      case TextKind::kFloat:
        break;
    }
    return function(floats);
  }
};

// Returns the list of `tensor` that has elements like those of `like`.
std::vector<absl::string_view>& ListLike(
    const std::vector<absl::string_view>& like, TextTensor& tensor);
std::vector<int64_t>& ListLike(const std::vector<int64_t>& like,
                               TextTensor& tensor);
std::vector<double>& ListLike(const std::vector<double>& like,
                              TextTensor& tensor);

// Returns the number of elements of a shape. INVALID_ARGUMENT for a size below
// 0 or more than kMostTextElements elements.
inline constexpr uint64_t kMostTextElements = uint64_t{1} << 24;
absl::StatusOr<uint64_t> TextElements(absl::Span<const int64_t> shape);

// Returns a view of a constant, which must live longer. INVALID_ARGUMENT if its
// elements are not those of its type and shape.
absl::StatusOr<TextTensor> ViewConstant(const v1::TextTensor& constant);

}  // namespace gpupool::server
