// Dimensions of which a version serves several sizes: which sizes are taken,
// and how tensors are filled up to the next size and cut back.
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
  std::vector<int64_t> sizes;  // rising; empty: all from minimum to maximum
  bool padded = false;         // sizes between are rounded up
};

// Of a model, by name.
std::vector<SizedDimension> SizedDimensions(const v1::ModelSpec& spec);

// The size of the program that serves a request of `size`. InvalidArgument
// names `model`, `input`, the dimension, what came, what is taken and what can
// be done.
absl::StatusOr<int64_t> SizeToServe(absl::string_view model,
                                    absl::string_view input,
                                    const SizedDimension& dimension,
                                    int64_t size);

// One element with this number; for data types of 16 bits the nearest below
// in magnitude.
std::vector<std::byte> ElementOf(v1::DataType data_type, double number);

// A dense row-major tensor's place. `Byte` is std::byte or const std::byte.
template <typename Byte>
struct TensorPlace {
  absl::Span<const int64_t> shape;
  Byte* data = nullptr;
};

// Copies `from` into the corner of `to`, none of whose dimensions is smaller,
// and fills the rest with `element`.
void PadTensor(const TensorPlace<const std::byte>& from,
               absl::Span<const std::byte> element,
               const TensorPlace<std::byte>& to);
// Copies the corner of `from` that `to` takes.
void CutTensor(const TensorPlace<const std::byte>& from, uint64_t element_bytes,
               const TensorPlace<std::byte>& to);

}  // namespace gpupool::server
