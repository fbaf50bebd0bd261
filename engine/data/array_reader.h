// Readers of arrays as IDX and NPY files hold them: a header with element type
// and shape, then the elements in row-major order. Pure functions over streams.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/byte_stream.h"
#include "engine/data/table.h"

namespace gpupool::engine {

enum class ElementType : uint8_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
  kFloat16,
  kFloat32,
  kFloat64,
};

uint64_t ElementBytes(ElementType type);

struct ArrayHeader {
  ElementType type = ElementType::kUint8;
  bool big_endian = false;
  std::vector<int64_t> shape;  // rank 1 .. 8, each >= 1
};

// Converts the next out.size() elements to float. INVALID_ARGUMENT when the
// stream is too short or an element is not finite as a float; the text names
// its zero-based position.
absl::Status ReadElements(ByteStream& stream, const ArrayHeader& header,
                          absl::Span<float> out);

// An open array: its header, and the stream positioned at the first element.
struct OpenArray {
  ArrayHeader header;
  ByteStream* stream = nullptr;
};

// Joins a features array [rows, ...] and a labels array [rows, ...] to a table.
// Labels of [rows, 1] mean one number for each row, as [rows] does. A rank-1
// features array means one feature for each row. INVALID_ARGUMENT begins with
// "features: " or "labels: " and names both shapes when they disagree.
absl::StatusOr<Table> TableFromArrays(const OpenArray& features,
                                      const OpenArray& labels,
                                      const ReadLimits& limits);

}  // namespace gpupool::engine
