// One array of a dataset: rows of equal shape in their own element type, in
// memory or in a mapped file. A value that shares its bytes; several threads
// may read it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/data/label_facts.h"
#include "engine/data/mapped_file.h"

namespace gpupool::v1 {
enum DataType : int;
}  // namespace gpupool::v1

namespace gpupool::engine {

// The element types of IDX and NPY files. Their facts are one table, in
// column.cc.
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
// Returns "uint8", "float16", ...
absl::string_view ElementTypeName(ElementType type);
constexpr bool IsFloating(ElementType type) {
  return type >= ElementType::kFloat16;
}
// Returns the type of a NumPy code without its byte order, as "f4". Booleans
// are kUint8.
std::optional<ElementType> ElementTypeOfNumpy(absl::string_view code);
// Returns the type that holds every number of the array: its own where
// DataType has it, else the next larger one.
v1::DataType ToProto(ElementType type);
// Returns the type of the arrays that have this type in messages: the one that
// ToProto keeps. kUint8 for BOOL; kFloat32 for types that no array has.
ElementType FromProto(v1::DataType type);

struct Column {
  // Key in DatasetLayout.input_arrays or target_arrays. Empty for the only
  // features or labels of a dataset.
  std::string name;
  ElementType type = ElementType::kFloat32;
  ElementType stored = ElementType::kFloat32;  // in the file
  bool big_endian = false;                     // possible in mapped files only
  std::vector<int64_t> shape;                  // one row's; empty: one number
  uint64_t rows = 0;
  uint64_t width = 1;          // count of numbers in a row
  const char* data = nullptr;  // [rows, width] at any alignment
  // Numbers from the beginning of a row to the beginning of the next. 0: rows
  // follow each other. Else they are windows, which may share numbers.
  uint64_t step = 0;
  // Owner of the data: one of both.
  std::shared_ptr<const std::vector<char>> memory;
  std::shared_ptr<const MappedFile> file;
  LabelFacts facts;  // targets only

  uint64_t row_bytes() const { return width * ElementBytes(type); }
  // Return where a row, and the i-th number of all rows, begin: in numbers from
  // `data`.
  uint64_t PlaceOfRow(uint64_t row) const {
    return row * (step == 0 ? width : step);
  }
  uint64_t PlaceOf(uint64_t i) const {
    return step == 0 ? i : PlaceOfRow(i / width) + i % width;
  }
  // Returns the first number from the i-th on that is not shared with the row
  // before, where rows are windows.
  uint64_t SkipShared(uint64_t i) const {
    if (step == 0 || step >= width || i < width) return i;
    return std::max(i, i / width * width + (width - step));
  }
  // Returns the word for a row in errors.
  absl::string_view row_name() const { return step == 0 ? "row" : "window"; }
  // Returns the bytes that the column takes in host memory; 0 if it is mapped.
  uint64_t host_bytes() const;
  // Returns DATA_LOSS if the mapped file has become too short. Reading on would
  // then end the process (SIGBUS).
  absl::Status CheckWhole() const;
};

// Convert consecutive numbers of all rows, from the `first`-th on. Numbers
// become the nearest float. Conversion to an integer drops the fraction; a
// number out of range becomes 0.
void Convert(const Column& column, uint64_t first, absl::Span<float> to);
void Convert(const Column& column, uint64_t first, absl::Span<int32_t> to);
void Convert(const Column& column, uint64_t first, absl::Span<int64_t> to);

// Convert whole rows in any order, as Convert: row i of the result is rows[i],
// which must be below column.rows. The elements of `to` after the rows are set
// to zero.
void Gather(const Column& column, absl::Span<const uint32_t> rows,
            absl::Span<float> to);
void Gather(const Column& column, absl::Span<const uint32_t> rows,
            absl::Span<int32_t> to);
void Gather(const Column& column, absl::Span<const uint32_t> rows,
            absl::Span<int64_t> to);

// Convert all numbers in chunks, until `use` returns false. `use` also gets the
// position of the first number of the chunk among those of all rows. A number
// that windows share is converted with the first of them.
void ConvertOnce(
    const Column& column,
    absl::FunctionRef<bool(uint64_t, absl::Span<const float>)> use);
void ConvertOnce(
    const Column& column,
    absl::FunctionRef<bool(uint64_t, absl::Span<const int64_t>)> use);

// Returns the position of the first number that is not finite as a float32, or
// that int64 cannot hold; the count of numbers if there is none.
uint64_t FirstUnusable(const Column& column);

// A number of a column, and its position among all numbers of the column.
struct PlacedNumber {
  uint64_t position = 0;
  double number = 0;
};

// Returns the first number with a fraction or a magnitude above `limit`, or
// that is not a number; none for columns of integers.
std::optional<PlacedNumber> FirstNotWhole(const Column& column, double limit);

}  // namespace gpupool::engine
