// The words for a precision in files and on the command line: the names of
// v1::Precision, and others for the same arithmetic. Pure; from any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::client {

// Returns the precision that a word of any case stands for: highest (float32,
// fp32), high (tf32), bf16 (bfloat16), fp16 (float16, half). INVALID_ARGUMENT
// for other words. The error for PyTorch's "medium" says what to write.
absl::StatusOr<v1::Precision> ParsePrecision(absl::string_view word);

// Returns PyTorch's word for the arithmetic: "float32", "tf32", "bfloat16" or
// "float16". ParsePrecision takes each of them.
std::string ArithmeticWord(v1::Precision precision);

}  // namespace gpupool::client
