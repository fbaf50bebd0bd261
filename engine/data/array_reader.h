// Readers of arrays as IDX and NPY files hold them: a header with element type
// and shape, then the elements in row-major order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/bytes/byte_stream.h"
#include "engine/data/table.h"

namespace gpupool::engine {

struct ArrayHeader {
  ElementType type = ElementType::kUint8;
  bool big_endian = false;
  std::vector<int64_t> shape;  // rank 1 .. kMaxRank, each >= 1
};

// An open array: its header, and the stream positioned at the first element.
struct OpenArray {
  ArrayHeader header;
  ByteStream* stream = nullptr;
  // Key in the layout's maps; empty for the only features or labels.
  std::string name;
  // The array as errors call it: "features", "input 'ids'".
  std::string title;
  // The file whose bytes the stream reads. Null: a mapping of them cannot be
  // kept.
  std::shared_ptr<const MappedFile> file;
};

// Joins arrays of shape [rows, ...] to a table. The first of `inputs` says how
// many rows there are.
// - Targets of [rows, 1] mean one number for each row, as [rows] does.
// - Inputs of rank 1 mean one number for each row.
// INVALID_ARGUMENT begins with the title of an array that is too short or too
// long, that holds a number which is not finite as a float32 or which int64
// cannot hold, or that has another count of rows.
absl::StatusOr<Table> TableFromArrays(absl::Span<const OpenArray> inputs,
                                      absl::Span<const OpenArray> targets,
                                      const ReadLimits& limits);

// Returns the bytes that TableFromArrays takes in memory, from the headers
// alone: 0 when it maps the table. Errors of the shapes as there.
absl::StatusOr<uint64_t> HostBytes(absl::Span<const OpenArray> inputs,
                                   absl::Span<const OpenArray> targets,
                                   const ReadLimits& limits);

}  // namespace gpupool::engine
