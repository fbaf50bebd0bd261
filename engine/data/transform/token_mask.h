// Hides tokens of rows for masked language modelling (random_mask): Devlin et
// al., "BERT", NAACL 2019, section 3.1. A value that never changes; several
// threads may use it.
//
// Whether a token is chosen follows from the seed, the epoch, the row, the
// position and the token itself. So the input and its labels, which are filled
// one after the other, agree about it.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "engine/base/philox.h"
#include "engine/data/transform/row_transforms.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {

// The epoch of rows that are evaluated, so that they are always masked in the
// same way.
inline constexpr uint64_t kEvaluatedEpoch = (uint64_t{1} << 56) - 1;
// The most tokens of a row. Each has random numbers of its own.
inline constexpr uint64_t kMaxMaskedTokens = uint64_t{1} << 23;

// Probabilities of a mask, with the defaults of fields that are not set.
struct MaskShares {
  explicit MaskShares(const v1::Transform::RandomMask& mask);

  double chosen;  // of all tokens
  double masked;  // of the chosen ones: they become mask_token
  double drawn;   // of the chosen ones: they become random tokens
};

class TokenMask {
 public:
  // `index` is the position in data.transforms. The numbers must have passed
  // CheckTransforms.
  TokenMask(const v1::Transform::RandomMask& mask, uint64_t index);

  // Replace the chosen tokens of a row.
  void Hide(const RowKey& key, absl::Span<int32_t> tokens) const;
  void Hide(const RowKey& key, absl::Span<int64_t> tokens) const;
  // Sets the labels of tokens that are not chosen to `ignored`. `tokens` are
  // those of the row before Hide, as many as labels.
  void Ignore(const RowKey& key, absl::Span<const int64_t> tokens,
              int64_t ignored, absl::Span<int64_t> labels) const;

 private:
  // Returns what a token becomes if it is chosen.
  std::optional<int64_t> Draw(uint64_t begin, uint64_t place, int64_t token,
                              Philox& random) const;
  template <typename T>
  void HideAll(const RowKey& key, absl::Span<T> tokens) const;

  v1::Transform::RandomMask mask_;
  MaskShares shares_;
  uint64_t index_;
};

}  // namespace gpupool::engine
