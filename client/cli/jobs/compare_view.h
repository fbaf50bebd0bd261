// The result of `gpupool compare`: a line, or an object, for each precision.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "client/cli/jobs/precision_run.h"
#include "client/cli/output/table.h"

namespace gpupool::client {

// Returns the run that others are compared with: the first that trained to its
// end. Null if there is none.
const PrecisionRun* BaseOf(const std::vector<PrecisionRun>& runs);

// Returns a row for each run. Speed and differences are relative to BaseOf.
Table CompareTable(const std::vector<PrecisionRun>& runs);

// Returns an array with an object for each run, with a line end. A value that
// does not exist is null.
std::string CompareJson(const std::vector<PrecisionRun>& runs);

}  // namespace gpupool::client
