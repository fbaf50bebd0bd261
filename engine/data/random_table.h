// A table of random rows with the form of a dataset, for a try of a training
// that reads no data. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/data/table.h"

namespace gpupool::v1 {
class Dataset;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Returns `dataset.rows` rows: as features numbers from 0 to 1, which are 0 for
// arrays of whole numbers, and as labels the smallest and the largest that the
// dataset has, in turn. The same dataset gives the same table. INVALID_ARGUMENT
// for impossible dimensions, RESOURCE_EXHAUSTED when the table would be larger
// than `limits` allow.
absl::StatusOr<Table> RandomTable(const v1::Dataset& dataset,
                                  const ReadLimits& limits);

// Reads the dataset from the blobs in the folder, or makes the rows of a
// synthetic one. Any other dataset without files is a RandomTable.
// Table::csv_columns is empty.
absl::StatusOr<Table> ReadOrMakeTable(const v1::Dataset& dataset,
                                      const std::string& blob_dir,
                                      const ReadLimits& limits);

}  // namespace gpupool::engine
