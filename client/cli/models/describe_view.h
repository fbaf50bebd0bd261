// Prints what a dataset holds: `gpupool datasets describe`.
#pragma once

#include "client/cli/command/context.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::client {

// Prints facts of the whole dataset, a table of its columns or arrays, the rows
// of each class of its labels, and its first rows. A dataset from an older
// server has no description; then the facts and a remark are printed.
void PrintDescription(const Context& context, const v1::Dataset& dataset);

}  // namespace gpupool::client
