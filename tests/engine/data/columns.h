// Columns in memory for tests, and their numbers.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/data/column.h"

namespace gpupool::engine {

// Returns a column whose rows have the shape, from the bytes of its elements.
inline Column ColumnOfBytes(ElementType type, std::vector<int64_t> shape,
                            const std::string& bytes) {
  Column column{.type = type, .shape = std::move(shape)};
  for (int64_t dimension : column.shape) {
    column.width *= static_cast<uint64_t>(dimension);
  }
  column.rows = bytes.size() / column.row_bytes();
  column.memory =
      std::make_shared<std::vector<char>>(bytes.begin(), bytes.end());
  column.data = column.memory->data();
  return column;
}

// Returns a float32 column.
inline Column ColumnOf(std::vector<int64_t> shape,
                       const std::vector<float>& numbers) {
  std::string bytes(numbers.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return ColumnOfBytes(ElementType::kFloat32, std::move(shape), bytes);
}

// Returns all numbers of the column.
inline std::vector<float> Floats(const Column& column) {
  std::vector<float> numbers(column.rows * column.width);
  Convert(column, 0, absl::MakeSpan(numbers));
  return numbers;
}

}  // namespace gpupool::engine
