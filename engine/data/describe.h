// Describes what a table holds, for people who look at a dataset. Pure.
#pragma once

#include "engine/data/table.h"

namespace gpupool::v1 {
class DatasetDescription;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Returns the description of a table that was read: of each column of a CSV
// file, else of each array. Of an array with more than 2^30 numbers only the
// first rows are counted.
v1::DatasetDescription DescribeTable(const Table& table);

}  // namespace gpupool::engine
