// Tensors in files: NumPy's .npy, and JSON as nested arrays of numbers.
//
//   npy    = "\x93NUMPY" major:8 minor:8 length header data
//   length = 2 bytes little-endian (major 1) or 4 bytes (major 2 and 3)
//   header = a Python dict: {'descr': '<f4', 'fortran_order': False,
//            'shape': (2, 3), }
//
// Pure except for reading and writing files; from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::client {

struct Tensor {
  std::string data_type;  // the inference protocol's: "FP32", "INT64", ...
  std::vector<int64_t> shape;
  std::string bytes;  // little-endian, row-major
};

// Returns the bytes of one element, or 0 if the type is unknown.
uint64_t ElementBytes(absl::string_view data_type);

// Parses an array in row-major order. InvalidArgument for other bytes, other
// orders, and types that the protocol does not have.
absl::StatusOr<Tensor> ParseNpy(absl::string_view file);
std::string NpyText(const Tensor& tensor);

// Parses nested arrays of numbers, of true and false, or of strings for BYTES,
// as `data_type`.
// InvalidArgument if lengths differ or a number is out of the type's range.
absl::StatusOr<Tensor> ParseJsonTensor(absl::string_view json,
                                       absl::string_view data_type);
// Returns the tensor as nested arrays.
std::string JsonText(const Tensor& tensor);
// Returns the tensor's elements in row-major order; true is 1, false is 0.
std::vector<double> Numbers(const Tensor& tensor);

// Reads the file in the format of its extension, .npy or .json, at most 1 GiB.
// `data_type` is used for JSON.
absl::StatusOr<Tensor> ReadTensorFile(const std::string& path,
                                      absl::string_view data_type);

}  // namespace gpupool::client
