#include "engine/data/transform/token_mask.h"

#include <algorithm>

#include "engine/base/check.h"

namespace gpupool::engine {
namespace {

// Random words for each token. A token takes six, or more by rejection, which
// has a probability below 2^-32 and leads into the words of the next token.
constexpr uint64_t kTokenWords = 8;
static_assert(kMaxMaskedTokens * kTokenWords <= kTransformWords);

}  // namespace

MaskShares::MaskShares(const v1::Transform::RandomMask& mask)
    : chosen(mask.has_p() ? mask.p() : 0.15),
      masked(mask.has_mask_share() ? mask.mask_share() : 0.8),
      drawn(mask.has_random_share() ? mask.random_share() : 0.1) {}

TokenMask::TokenMask(const v1::Transform::RandomMask& mask, uint64_t index)
    : mask_(mask), shares_(mask), index_(index) {}

void TokenMask::Hide(const RowKey& key, absl::Span<int32_t> tokens) const {
  HideAll(key, tokens);
}
void TokenMask::Hide(const RowKey& key, absl::Span<int64_t> tokens) const {
  HideAll(key, tokens);
}

void TokenMask::Ignore(const RowKey& key, absl::Span<const int64_t> tokens,
                       int64_t ignored, absl::Span<int64_t> labels) const {
  GPUPOOL_CHECK(tokens.size() == labels.size());
  Philox random = RandomOf(key, index_);
  const uint64_t begin = random.position();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (Draw(begin, i, tokens[i], random).has_value()) continue;
    labels[i] = ignored;
  }
}

template <typename T>
void TokenMask::HideAll(const RowKey& key, absl::Span<T> tokens) const {
  Philox random = RandomOf(key, index_);
  const uint64_t begin = random.position();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int64_t token = tokens[i];
    tokens[i] = static_cast<T>(Draw(begin, i, token, random).value_or(token));
  }
}

std::optional<int64_t> TokenMask::Draw(uint64_t begin, uint64_t place,
                                       int64_t token, Philox& random) const {
  const auto& kept = mask_.kept_tokens();
  if (std::find(kept.begin(), kept.end(), token) != kept.end()) {
    return std::nullopt;
  }
  random.Seek(begin + place * kTokenWords);
  if (random.NextDouble() >= shares_.chosen) return std::nullopt;
  const double kind = random.NextDouble();
  if (kind < shares_.masked) return mask_.mask_token();
  if (kind >= shares_.masked + shares_.drawn) return token;
  return static_cast<int64_t>(random.NextBelow(mask_.vocabulary()));
}

}  // namespace gpupool::engine
