// Runs one model on the reference and on the CPU back end and compares. Belongs
// to one thread; may crash or hang if the product does, so it runs in a child
// (guarded_child.h).
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <string>

namespace gpupool::engine::fuzz {

enum class Outcome : uint8_t {
  kRefused,    // the importer does not take the model
  kRejected,   // both back ends refuse the numbers, an index for example
  kUndefined,  // the numbers have no defined result; both back ends ran
  kAlike,      // all compared elements agree
  kBroken,     // an error that no model may cause
  kDifferent,  // the back ends disagree
};

struct Verdict {
  Outcome outcome = Outcome::kRefused;
  std::string text;  // why
  int64_t compared = 0;
  int64_t skipped = 0;

  bool is_finding() const {
    return outcome == Outcome::kBroken || outcome == Outcome::kDifferent;
  }
};

// Runs the model. `stage` is called with the name of what begins: "import",
// "reference", "compile and run", "train".
Verdict RunOnBoth(const onnx::ModelProto& model, uint64_t seed,
                  const std::function<void(const char*)>& stage);

}  // namespace gpupool::engine::fuzz
