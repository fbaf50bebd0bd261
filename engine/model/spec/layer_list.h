// Writes the layers of a model, one after the other. Used by the named models.
//
// Thread-safety: one thread at a time. Lives during the making of one model.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {

// A convolution without bias, with square kernels.
struct ConvolutionShape {
  int64_t filters = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
};

class LayerList {
 public:
  // Adds to the layers of `spec`, which must outlive the object.
  explicit LayerList(v1::ModelSpec& spec) : spec_(spec) {}

  // Adds a layer without a kind, called `name`. It reads the layer before it.
  // The pointer is valid until the next layer is added.
  v1::Layer* Add(absl::string_view name);

  // Adds a convolution whose weight begins with KAIMING_NORMAL.
  v1::Layer* Convolve(absl::string_view name, const ConvolutionShape& shape);

  // Returns the name of the newest layer, or "input".
  std::string last() const;

 private:
  v1::ModelSpec& spec_;
};

}  // namespace gpupool::engine
