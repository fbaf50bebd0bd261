// Helper functions for tests of the graph: specs from text, seeded random
// numbers, one run of a program on the reference back end.
#pragma once

#include <cstdint>
#include <string>

#include "engine/backends/reference/interpreter.h"
#include "engine/model/layer_spec.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine::testing {

// Parses protobuf text format. Aborts if it does not parse.
v1::ModelSpec ModelFromText(const std::string& text);
v1::TrainingSpec TrainingFromText(const std::string& text);

// Returns a small convolutional net for 8x8 digits, with batch norm and
// dropout.
v1::ModelSpec DigitsModel();

// Returns uniform numbers in [low, high), determined by the seed.
reference::Numbers RandomNumbers(int64_t count, uint64_t seed, double low = -1,
                                 double high = 1);

// Returns values for every persistent value of the graph. Names that end in
// "running_var" or "adam.v" get positive numbers.
reference::NamedNumbers RandomPersistents(const Graph& graph, uint64_t seed);

// Returns initial values from the initializers.
reference::NamedNumbers InitialPersistents(const ModelGraph& model,
                                           uint64_t seed);

// Returns values for every input: labels, and an "input" of whole numbers, in 0
// .. classes-1, learning_rate 0.01, step 1, seed 7, row_count the batch.
reference::NamedNumbers RandomInputs(const Graph& graph, uint64_t seed,
                                     int64_t classes = 3);

// Returns the largest |a - b| / (1 + |b|), or infinity if sizes differ or a
// number is NaN.
double Distance(const reference::Numbers& a, const reference::Numbers& b);

}  // namespace gpupool::engine::testing
