// The data of one model in data/: the graph as PyTorch exported it, its weights
// by formula, and the results.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/model/model_source.h"

namespace gpupool::testing {

struct StoredCase {
  nlohmann::json facts;  // the model's .json file
  std::shared_ptr<const engine::ModelSource> source;
};

// Writes the weights to a temporary file and opens the model with them. Aborts
// if the files are missing, since they belong to the tree.
StoredCase OpenStoredCase(const std::string& name);

}  // namespace gpupool::testing
