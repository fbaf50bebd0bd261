#include "server/serving/text/text_cast.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/base/utf8.h"

namespace gpupool::server {
namespace {

// Most bytes of a text in an error.
constexpr size_t kShownTextBytes = 64;
// Most bytes of a number as a text.
constexpr uint64_t kNumberBytes = 32;

absl::Status NoNumber(absl::string_view text, v1::DataType to) {
  const bool shown = engine::IsUtf8({text.data(), text.size()});
  const std::string cut(
      engine::CutUtf8({text.data(), text.size()}, kShownTextBytes));
  return engine::Refuse("cannot read '",
                        shown ? cut : "bytes that are no UTF-8", "' as ",
                        v1::DataType_Name(to));
}

absl::StatusOr<double> ReadFloat(absl::string_view text, v1::DataType to) {
  double number = 0;
  if (!absl::SimpleAtod(text, &number)) return NoNumber(text, to);
  return FitFloat(number, to);
}

absl::StatusOr<int64_t> ReadInteger(absl::string_view text, v1::DataType to) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || FitInteger(number, to) != number) {
    return NoNumber(text, to);
  }
  return number;
}

std::string FloatText(double number, v1::DataType from) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "INF" : "-INF";
  return from == v1::FLOAT32 ? absl::StrFormat("%.8g", number)
                             : absl::StrFormat("%.17g", number);
}

int64_t WholeNumber(double number) {
  if (std::isnan(number)) return 0;
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (number >= kLimit) return std::numeric_limits<int64_t>::max();
  if (number < -kLimit) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(number);
}

absl::Status ReadTexts(const TextTensor& tensor, TextTensor& result) {
  for (const absl::string_view text : tensor.texts) {
    if (result.kind() == TextKind::kFloat) {
      ASSIGN_OR_RETURN(result.floats.emplace_back(),
                       ReadFloat(text, result.type));
    } else {
      ASSIGN_OR_RETURN(result.integers.emplace_back(),
                       ReadInteger(text, result.type));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteTexts(const TextTensor& tensor, TextMemory& memory,
                        TextTensor& result) {
  RETURN_IF_ERROR(memory.Take(tensor.size() * kNumberBytes));
  for (const double number : tensor.floats) {
    result.texts.push_back(memory.Keep(FloatText(number, tensor.type)));
  }
  for (const int64_t number : tensor.integers) {
    result.texts.push_back(memory.Keep(absl::StrCat(number)));
  }
  return absl::OkStatus();
}

void ConvertNumbers(const TextTensor& tensor, TextTensor& result) {
  const bool to_bool = result.type == v1::BOOL;
  for (const double number : tensor.floats) {
    if (result.kind() == TextKind::kFloat) {
      result.floats.push_back(FitFloat(number, result.type));
    } else {
      result.integers.push_back(
          to_bool ? static_cast<int64_t>(number != 0)
                  : FitInteger(WholeNumber(number), result.type));
    }
  }
  for (const int64_t number : tensor.integers) {
    if (result.kind() == TextKind::kFloat) {
      result.floats.push_back(
          FitFloat(static_cast<double>(number), result.type));
    } else {
      result.integers.push_back(FitInteger(number, result.type));
    }
  }
}

template <typename Integer>
int64_t Wrap(int64_t number) {
  return static_cast<int64_t>(static_cast<Integer>(number));
}

}  // namespace

int64_t FitInteger(int64_t number, v1::DataType type) {
  switch (type) {
    case v1::BOOL:
      return number != 0 ? 1 : 0;
    case v1::INT8:
      return Wrap<int8_t>(number);
    case v1::UINT8:
      return Wrap<uint8_t>(number);
    case v1::INT16:
      return Wrap<int16_t>(number);
    case v1::UINT16:
      return Wrap<uint16_t>(number);
    case v1::INT32:
      return Wrap<int32_t>(number);
    case v1::UINT32:
      return Wrap<uint32_t>(number);
    default:
      return number;
  }
}

double FitFloat(double number, v1::DataType type) {
  if (type != v1::FLOAT32) return number;
  // A double beyond float has no defined conversion. From half a step above the
  // largest float on, the nearest one is infinity.
  constexpr double kInfinite = 3.4028235677973366e38;
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (std::isfinite(number) && std::abs(number) > kLargest) {
    const double nearest = std::abs(number) < kInfinite
                               ? kLargest
                               : std::numeric_limits<double>::infinity();
    return std::copysign(nearest, number);
  }
  return static_cast<double>(static_cast<float>(number));
}

absl::StatusOr<TextTensor> CastText(const TextTensor& tensor, v1::DataType to,
                                    TextMemory& memory) {
  RETURN_IF_ERROR(memory.TakeElements(tensor.size()));
  TextTensor result;
  result.type = to;
  result.shape = tensor.shape;
  const bool from_text = tensor.kind() == TextKind::kText;
  const bool to_text = result.kind() == TextKind::kText;
  if (from_text && to_text) {
    result.texts = tensor.texts;
  } else if (from_text) {
    RETURN_IF_ERROR(ReadTexts(tensor, result));
  } else if (to_text) {
    RETURN_IF_ERROR(WriteTexts(tensor, memory, result));
  } else {
    ConvertNumbers(tensor, result);
  }
  return result;
}

}  // namespace gpupool::server
