#include "server/serving/decoupled/repeat_responses.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

constexpr char kElements[] = "n";

// Positions of the inputs.
enum Input : uint8_t { kIn, kDelay, kWait };

v1::TensorSpec Tensor(const char* name, v1::DataType type, bool varies) {
  v1::TensorSpec spec;
  spec.set_name(name);
  spec.set_data_type(type);
  spec.add_shape(varies ? -1 : 1);
  if (!varies) return spec;
  v1::VariableDimension* variable = spec.add_variable();
  variable->set_axis(0);
  variable->set_name(kElements);
  variable->set_minimum(0);
  variable->set_maximum(kMostRepeats);
  return spec;
}

template <typename Number>
std::vector<Number> NumbersOf(absl::Span<const std::byte> bytes) {
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  if (!numbers.empty()) {
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(Number));
  }
  return numbers;
}

template <typename Number>
absl::Span<const std::byte> BytesOfNumber(const Number& number) {
  return {reinterpret_cast<const std::byte*>(&number), sizeof(number)};
}

class RepeatResponses : public ResponseSource {
 public:
  RepeatResponses(std::vector<int32_t> elements, std::vector<absl::Time> due)
      : elements_(std::move(elements)), due_(std::move(due)) {}

  uint32_t count() const override {
    return static_cast<uint32_t>(elements_.size());
  }
  absl::Time DueAt(uint32_t index) const override { return due_[index]; }
  SourcedResponse At(uint32_t index) override {
    element_ = elements_[index];
    index_ = index;
    return {.outputs = {BytesOfNumber(element_), BytesOfNumber(index_)},
            .shapes = {{1}, {1}},
            .has_output = {true, true}};
  }

 private:
  const std::vector<int32_t> elements_;
  const std::vector<absl::Time> due_;
  int32_t element_ = 0;
  int64_t index_ = 0;  // UINT32 as slots hold it
};

absl::Status TooLong(absl::string_view what, uint32_t millis) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", millis, " milliseconds; the longest is ",
                   kLongestRepeatMillis));
}

}  // namespace

void DescribeRepeat(v1::Plan* plan, v1::ModelSpec* spec) {
  *plan->add_inputs() = Tensor("IN", v1::INT32, true);
  *plan->add_inputs() = Tensor("DELAY", v1::UINT32, true);
  *plan->add_inputs() = Tensor("WAIT", v1::UINT32, false);
  *plan->add_outputs() = Tensor("OUT", v1::INT32, false);
  *plan->add_outputs() = Tensor("IDX", v1::UINT32, false);
  auto& sizes = (*spec->mutable_onnx()->mutable_served_dimensions())[kElements];
  sizes.set_minimum(0);
  sizes.set_maximum(kMostRepeats);
}

absl::StatusOr<absl::Time> RepeatClock::Begin(absl::Time now,
                                              absl::Duration wait) {
  absl::MutexLock lock(&mutex_);
  const absl::Time begin = std::max(now, next_);
  if (begin - now > absl::Milliseconds(kLongestRepeatMillis)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the request would begin in ", absl::FormatDuration(begin - now),
        ", because requests before it have a WAIT; the longest is ",
        kLongestRepeatMillis, " milliseconds: retry later"));
  }
  next_ = begin + wait;
  return begin;
}

absl::StatusOr<std::unique_ptr<ResponseSource>> MakeRepeatResponses(
    const CheckedInputs& inputs, absl::Time now, RepeatClock* clock) {
  const auto delays = NumbersOf<uint32_t>(inputs.bytes[kDelay]);
  for (size_t i = 0; i < delays.size(); ++i) {
    if (delays[i] <= kLongestRepeatMillis) continue;
    return TooLong(absl::StrCat("element ", i, " of input 'DELAY'"), delays[i]);
  }
  const uint32_t wait = NumbersOf<uint32_t>(inputs.bytes[kWait])[0];
  if (wait > kLongestRepeatMillis) return TooLong("input 'WAIT'", wait);
  ASSIGN_OR_RETURN(absl::Time time,
                   clock->Begin(now, absl::Milliseconds(wait)));
  std::vector<absl::Time> due;
  due.reserve(delays.size());
  for (const uint32_t delay : delays) {
    time += absl::Milliseconds(delay);
    due.push_back(time);
  }
  std::unique_ptr<ResponseSource> source = std::make_unique<RepeatResponses>(
      NumbersOf<int32_t>(inputs.bytes[kIn]), std::move(due));
  return source;
}

}  // namespace gpupool::server
