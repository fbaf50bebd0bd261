// The transforms of one input of a job, applied to its rows one by one. A value
// that never changes; several threads may use it.
//
// The random numbers of a row are a pure function of the seed, the epoch, the
// row and the transform's position. They depend neither on the batch nor on the
// number of threads or devices, so a resumed job repeats them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/philox.h"
#include "engine/data/transform/image.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {

// The source of a row's random numbers.
struct RowKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint32_t row = 0;
};

// Words of random numbers that a row has for each transform.
inline constexpr uint64_t kTransformWords = uint64_t{1} << 26;

// Returns the random numbers of the row for the transform with this position in
// data.transforms.
Philox RandomOf(const RowKey& key, uint64_t transform);

class RowTransforms {
 public:
  RowTransforms() = default;

  // Makes those of the transforms of images that are for this input; those
  // without an input's name are for every one. Rows are images of this shape,
  // whose numbers are integers or not. The numbers of `data` must have passed
  // CheckTransforms. INVALID_ARGUMENT names the transform that does not fit.
  static absl::StatusOr<RowTransforms> Create(const v1::DataSpec& data,
                                              absl::string_view input,
                                              const ImageShape& shape,
                                              bool integers);

  bool empty() const { return steps_.empty(); }
  // Returns the shape of rows before and after.
  const ImageShape& before() const { return before_; }
  const ImageShape& after() const { return after_; }

  // Transform an image of the shape before(): a training row with all
  // transforms, an evaluated one without the random ones. Of random crops those
  // take the centre, so that both have the same shape.
  void Train(const RowKey& key, Image& image) const;
  void Evaluate(Image& image) const;

 private:
  struct Step {
    uint64_t index = 0;  // in data.transforms
    v1::Transform transform;
    float maximum = 1;  // of pixels, for color_jitter
    ImageShape after;
  };

  // Adds a transform after the others. `pixels_end` is where pixels end, 0
  // after normalize.
  absl::Status Add(Step step, float& pixels_end);
  void TrainStep(const Step& step, Philox& random, Image& image) const;
  // Does what needs no random numbers.
  void PlainStep(const Step& step, Image& image) const;

  ImageShape before_;
  ImageShape after_;
  std::vector<Step> steps_;
};

}  // namespace gpupool::engine
