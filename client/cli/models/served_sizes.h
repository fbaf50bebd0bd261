// Sizes, padding and bound numbers of an ONNX model, as users write them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::client {

struct SizeTexts {
  // "sequence=128": one size; "sequence=1:512": a range; "sequence=64,128": a
  // list
  std::vector<std::string> dimensions;
  std::vector<std::string> padding;  // "ids=0"
  std::vector<std::string> bound;    // "shape=4,6"
};

// Sets the sizes in `onnx`. InvalidArgument names the option and shows the
// right form.
absl::Status SetSizes(const SizeTexts& texts, v1::OnnxModel& onnx);

}  // namespace gpupool::client
