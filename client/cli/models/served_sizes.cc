#include "client/cli/models/served_sizes.h"

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/files/tensor_file.h"
#include "gpupool/v1/limits.pb.h"

namespace gpupool::client {
namespace {

absl::Status Refuse(const char* option, const std::string& text,
                    const char* form) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, " ", text, ": write ", form));
}

// Splits `text` at its first '='. Neither side may be empty.
absl::StatusOr<std::pair<std::string, std::string>> Split(
    const char* option, const std::string& text, const char* form) {
  std::pair<std::string, std::string> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (parts.first.empty() || parts.second.empty()) {
    return Refuse(option, text, form);
  }
  return parts;
}

constexpr char kDimensionForm[] =
    "NAME=SIZE, NAME=FIRST:LAST, NAME=SIZE,SIZE,... or a sum of other "
    "dimensions, for example sequence=128 or total=past+sequence";

// Returns whether the text names other dimensions. The server reads it.
bool IsExpression(const std::string& text) {
  return text.find_first_of(",:") == std::string::npos &&
         std::any_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isalpha(c) || c == '_'; });
}

absl::Status SetDimension(const std::string& text, v1::OnnxModel& onnx) {
  const auto parts = Split("--dimension", text, kDimensionForm);
  if (!parts.ok()) return parts.status();
  const auto& [name, value] = *parts;
  if (IsExpression(value)) {
    (*onnx.mutable_derived_dimensions())[name] = value;
    return absl::OkStatus();
  }
  const bool range = value.find(':') != std::string::npos;
  std::vector<int64_t> sizes;
  for (const absl::string_view one :
       absl::StrSplit(value, absl::ByAnyChar(range ? ":" : ","))) {
    if (!absl::SimpleAtoi(one, &sizes.emplace_back())) {
      return Refuse("--dimension", text, kDimensionForm);
    }
  }
  if (range && sizes.size() != 2) {
    return Refuse("--dimension", text, kDimensionForm);
  }
  if (sizes.size() == 1 && value.find(',') == std::string::npos) {
    (*onnx.mutable_dimensions())[name] = sizes[0];
    return absl::OkStatus();
  }
  v1::DimensionSizes& served = (*onnx.mutable_served_dimensions())[name];
  if (range) {
    served.set_minimum(sizes[0]);
    served.set_maximum(sizes[1]);
  } else {
    served.mutable_sizes()->Add(sizes.begin(), sizes.end());
  }
  return absl::OkStatus();
}

// Reads the numbers of a .npy file.
absl::Status AddNumbersOf(const std::string& path, v1::PlannedNumbers& bound) {
  const absl::StatusOr<Tensor> tensor = ReadTensorFile(path, "");
  if (!tensor.ok()) return tensor.status();
  const std::vector<double> numbers = Numbers(*tensor);
  if (numbers.empty() ||
      !std::all_of(numbers.begin(), numbers.end(),
                   [](double x) { return std::isfinite(x); })) {
    return absl::InvalidArgumentError(
        absl::StrCat("--bound: ", path, " has ",
                     numbers.empty() ? "no numbers" : "NaN or infinity",
                     "; save the largest numbers that the input will have"));
  }
  bound.mutable_numbers()->Add(numbers.begin(), numbers.end());
  return absl::OkStatus();
}

constexpr uint32_t kDefaultServedRows = v1::DEFAULT_SERVED_ROWS;
constexpr uint32_t kMostServedRows = v1::MAX_SERVED_ROWS;

}  // namespace

void AddMaxBatchSize(CLI::App& verb, uint32_t& rows) {
  verb.add_option(
          "--max-batch-size", rows,
          absl::StrCat("Maximum number of rows in one batch, 1 to ",
                       kMostServedRows, " (default: ", kDefaultServedRows, ")"))
      ->check(CLI::Range(1u, kMostServedRows))
      ->type_name("N");
}

absl::Status SetSizes(const SizeTexts& texts, v1::OnnxModel& onnx) {
  for (const std::string& text : texts.dimensions) {
    absl::Status set = SetDimension(text, onnx);
    if (!set.ok()) return set;
  }
  for (const std::string& text : texts.padding) {
    constexpr char kForm[] = "INPUT=NUMBER, for example ids=0";
    const auto parts = Split("--pad", text, kForm);
    if (!parts.ok()) return parts.status();
    double number = 0;
    if (!absl::SimpleAtod(parts->second, &number)) {
      return Refuse("--pad", text, kForm);
    }
    (*onnx.mutable_padding())[parts->first] = number;
  }
  for (const std::string& text : texts.bound) {
    constexpr char kForm[] =
        "INPUT=NUMBER,NUMBER,... or INPUT=FILE.npy, for example shape=4,6";
    const auto parts = Split("--bound", text, kForm);
    if (!parts.ok()) return parts.status();
    v1::PlannedNumbers& bound = (*onnx.mutable_bound_inputs())[parts->first];
    if (absl::EndsWith(parts->second, ".npy")) {
      absl::Status read = AddNumbersOf(parts->second, bound);
      if (!read.ok()) return read;
      continue;
    }
    for (const absl::string_view one : absl::StrSplit(parts->second, ',')) {
      double number = 0;
      if (!absl::SimpleAtod(one, &number)) {
        return Refuse("--bound", text, kForm);
      }
      bound.add_numbers(number);
    }
  }
  return absl::OkStatus();
}

}  // namespace gpupool::client
