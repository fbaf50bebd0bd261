#include "server/api/validation/sequence_options_check.h"

#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

using engine::Refuse;
using Control = v1::SequenceOptions::Control;

// Largest value of a flag, which INT32 has.
constexpr double kMaxFlag = std::numeric_limits<int32_t>::max();

absl::Status CheckCounts(absl::string_view field,
                         const v1::SequenceOptions& options) {
  const std::pair<const char*, int> counts[] = {
      {"controls", options.controls_size()}, {"states", options.states_size()}};
  for (const auto& [name, count] : counts) {
    if (count <= kMaxSequenceTensors) continue;
    return Refuse(field, ".", name, " has ", count, " entries; the limit is ",
                  kMaxSequenceTensors);
  }
  if (options.max_sequences() > kMaxSequences) {
    return Refuse(field, ".max_sequences is ", options.max_sequences(),
                  "; the limit is ", kMaxSequences);
  }
  if (options.max_idle_microseconds() > kMaxIdleMicroseconds) {
    return Refuse(field, ".max_idle_microseconds is ",
                  options.max_idle_microseconds(), "; the limit is ",
                  kMaxIdleMicroseconds, ", one day");
  }
  return absl::OkStatus();
}

absl::Status CheckOneControl(absl::string_view field, const Control& control) {
  for (const double value : {control.false_value(), control.true_value()}) {
    // Negates the whole range, so that NaN is refused, too.
    if (std::abs(value) <= kMaxFlag) continue;
    return Refuse(field, ".controls '", control.input(), "' has the value ",
                  value, "; write a number of at most ", kMaxFlag);
  }
  if (control.kind() >= Control::START && control.kind() <= Control::ID) {
    return absl::OkStatus();
  }
  return Refuse(field, ".controls '", control.input(), "' has the kind ",
                static_cast<int>(control.kind()),
                "; write START, END, READY or ID");
}

}  // namespace

absl::Status CheckSequenceOptions(absl::string_view field,
                                  const v1::SequenceOptions& options) {
  RETURN_IF_ERROR(CheckCounts(field, options));
  uint64_t initial = 0;
  for (const auto& state : options.states()) initial += state.initial().size();
  if (initial > kMaxInitialStateBytes) {
    return Refuse(field, ".states begin with ", initial,
                  " bytes, the limit is ", kMaxInitialStateBytes,
                  "; begin with zeros, and let the model take a constant of "
                  "its own while a START control is true");
  }
  for (const Control& control : options.controls()) {
    RETURN_IF_ERROR(CheckOneControl(field, control));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::server
