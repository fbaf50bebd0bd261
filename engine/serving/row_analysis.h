// Proves that row r of every output of a model depends on row r of the inputs
// alone, and in the same way for every batch. Only then may requests of
// different clients share a batch.
//
// Belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/layer_spec.h"
#include "engine/serving/row_facts.h"

namespace gpupool::engine {

// Returns what stands in the way of the proof, for one batch of at least 2:
// "'mean' (reduce)". Nothing when there is a proof. All inputs and outputs of
// the model must have a batch dimension.
std::optional<std::string> FindRowObstacle(const ModelGraph& model,
                                           int64_t batch);

// Compares the graphs of one model for several batches as well, because the
// size of the batch may be a number in them.
class RowAnalysis {
 public:
  // Adds the graph for this batch, at least 2. Graphs of the same `sizes` must
  // compute the same.
  void Add(const ModelGraph& model, int64_t batch,
           const std::vector<int64_t>& sizes);

  // Returns whether the graphs for two batches of the same sizes were added.
  bool compared() const { return compared_; }
  // Returns the first obstacle; nothing when there is none.
  const std::optional<std::string>& obstacle() const { return obstacle_; }

 private:
  struct Sample {
    int64_t batch = 2;
    std::vector<int64_t> sizes;
    Graph graph;
    std::vector<RowFacts> facts;
  };

  std::optional<Sample> first_;
  bool compared_ = false;
  std::optional<std::string> obstacle_;
};

}  // namespace gpupool::engine
