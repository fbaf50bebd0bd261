// Runs many cases of the graph fuzzer in child processes and collects what they
// find. A case that crashes, hangs or takes too much memory ends its child; the
// next child goes on behind it.
//
// The environment sets how long each campaign lasts:
//   GPUPOOL_FUZZ_SECONDS  goes on for this many seconds, from the seed on
//   GPUPOOL_FUZZ_GRAPHS   runs this many cases instead of the fixed number
//   GPUPOOL_FUZZ_SEED     the first seed (with SECONDS: the time of day)
//   GPUPOOL_FUZZ_KEEP     an existing folder that receives the models found
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/fuzz/graph_writer.h"

namespace gpupool::engine::fuzz {

struct CampaignOptions {
  std::string name;
  uint64_t cases = 0;          // of a fixed round
  int processor_seconds = 20;  // for each case
  // Makes the model of a seed. The observer must see every model before the
  // product does.
  std::function<onnx::ModelProto(uint64_t seed, const GraphWriter::Observer&)>
      make;
};

struct CampaignReport {
  uint64_t first_seed = 0;
  uint64_t cases = 0;
  uint64_t refused = 0, rejected = 0, undefined = 0, alike = 0;
  uint64_t compared = 0, skipped = 0;  // elements
  // Each with seed, stage, what happened and the model as text.
  std::vector<std::string> findings;

  std::string ToString() const;
};

// Ends early after 20 findings.
CampaignReport RunCampaign(const CampaignOptions& options);

// Returns the model as text of at most `most` characters.
std::string ModelText(const onnx::ModelProto& model, size_t most);

}  // namespace gpupool::engine::fuzz
