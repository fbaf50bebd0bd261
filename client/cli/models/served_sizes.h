// Sizes of served models, as users write them: of batches, and of an ONNX
// model's dimensions, padding and bound numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gpupool/v1/model.pb.h"

namespace CLI {
class App;
}

namespace gpupool::client {

// Adds --max-batch-size. `rows` stays 0, the server's default, without it.
void AddMaxBatchSize(CLI::App& verb, uint32_t& rows);

struct SizeTexts {
  // "sequence=128": one size; "sequence=0:512": a range; "sequence=64,128": a
  // list; "total=past+sequence": follows from others
  std::vector<std::string> dimensions;
  std::vector<std::string> padding;  // "ids=0"
  std::vector<std::string> bound;    // "shape=4,6" or "shape=numbers.npy"
};

// Sets the sizes in `onnx`. InvalidArgument names the option and shows the
// right form.
absl::Status SetSizes(const SizeTexts& texts, v1::OnnxModel& onnx);

}  // namespace gpupool::client
