// Arrays of numbers as IDX and NPY files hold them: a header with element
// type and shape, then the elements in row-major order. Pure functions over
// streams.
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

// Converts the next out.size() elements to float. InvalidArgument when the
// stream is too short or an element is not finite as a float (names its
// zero-based position).
absl::Status ReadElements(ByteStream& stream, const ArrayHeader& header,
                          absl::Span<float> out);

// One open array: a header that was read and the stream behind it.
struct OpenArray {
  ArrayHeader header;
  ByteStream* stream = nullptr;
};

// Joins a features array [rows, ...] and a labels array [rows, ...]; [rows, 1]
// means one number a row, as [rows] does. A rank-1 features array means one
// feature a row. InvalidArgument begins with "features: " or "labels: " and
// names both shapes when they disagree.
absl::StatusOr<Table> TableFromArrays(const OpenArray& features,
                                      const OpenArray& labels,
                                      const ReadLimits& limits);

}  // namespace gpupool::engine
