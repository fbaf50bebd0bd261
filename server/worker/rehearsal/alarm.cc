#include "server/worker/rehearsal/alarm.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/numbers.h"

namespace gpupool::server {
namespace {

constexpr absl::Duration kShortestLimit = absl::Seconds(60);
constexpr absl::Duration kLimitPerGiB = absl::Seconds(60);
constexpr char kVariable[] = "GPUPOOL_REHEARSAL_SECONDS";

}  // namespace

absl::Duration RehearsalLimit(uint64_t bytes) {
  const char* const text = std::getenv(kVariable);
  int seconds = 0;
  if (text != nullptr && absl::SimpleAtoi(text, &seconds) && seconds > 0) {
    return absl::Seconds(seconds);
  }
  const double gib = static_cast<double>(bytes) / (uint64_t{1} << 30);
  return kShortestLimit + gib * kLimitPerGiB;
}

Alarm::~Alarm() { ::alarm(0); }

void Alarm::Set(absl::Duration limit) {
  ::alarm(
      static_cast<unsigned>(std::max<int64_t>(absl::ToInt64Seconds(limit), 1)));
}

}  // namespace gpupool::server
