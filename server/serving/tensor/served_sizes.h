// Dimensions of several sizes: which sizes a version takes, and how tensors are
// padded to the next size and cut back.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

struct SizedDimension {
  std::string name;
  int64_t minimum = 1;
  int64_t maximum = 1;
  std::vector<int64_t> sizes;  // rising; empty: minimum to maximum
  bool padded = false;         // sizes in between are rounded up
};

// Returns the dimensions of a model by name.
std::vector<SizedDimension> SizedDimensions(const v1::ModelSpec& spec);

// Returns the size of the program that serves a request of `size`.
// InvalidArgument names `model`, `input`, the dimension, the given and the
// allowed sizes, and the remedy.
absl::StatusOr<int64_t> SizeToServe(absl::string_view model,
                                    absl::string_view input,
                                    const SizedDimension& dimension,
                                    int64_t size);

// Returns the bytes of one element with this number. For 16-bit types rounds
// towards zero.
std::vector<std::byte> ElementOf(v1::DataType data_type, double number);

// Location of a dense row-major tensor. `Byte` is std::byte or const std::byte.
template <typename Byte>
struct TensorPlace {
  absl::Span<const int64_t> shape;
  Byte* data = nullptr;
};

// Copies `from` into the corner of `to`, none of whose dimensions may be
// smaller, and fills the rest with `element`.
void PadTensor(const TensorPlace<const std::byte>& from,
               absl::Span<const std::byte> element,
               const TensorPlace<std::byte>& to);
// Copies the corner of `from` that has the dimensions of `to`.
void CutTensor(const TensorPlace<const std::byte>& from, uint64_t element_bytes,
               const TensorPlace<std::byte>& to);

}  // namespace gpupool::server
