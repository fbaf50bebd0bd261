// Runs any graph in double precision, slowly and obviously. It is the oracle
// for gradients, passes and other back ends. Integers are exact up to 2^53.
//
// Thread-safety: one thread at a time. Owns copies of everything.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/graph/graph.h"

namespace gpupool::engine::reference {

// Numbers in row-major order, whatever the value's layout.
using Numbers = std::vector<double>;
using NamedNumbers = std::map<std::string, Numbers, std::less<>>;

struct RunOptions {
  // Round the outputs of nodes to the value's floating type, as a real back
  // end would store them. Integers and bool always hold what their type can.
  bool round_to_dtype = false;
};

// Runs load nodes and step nodes once. `inputs` holds every input value by
// name. `persistents` holds every persistent value and receives updates at the
// end. Returns the graph's outputs by name.
//   INVALID_ARGUMENT  something is missing or has the wrong element count
absl::StatusOr<NamedNumbers> Run(const Graph& graph, const NamedNumbers& inputs,
                                 NamedNumbers& persistents,
                                 const RunOptions& options = {});

}  // namespace gpupool::engine::reference
