#include "server/api/validation/reservation_check.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "server/api/validation/convert.h"
#include "server/control/devices/reservation_requests.h"

namespace gpupool::server {
namespace {

constexpr uint32_t kMostDevices = 1024;
constexpr int32_t kNanosPerSecond = 1'000'000'000;
// Range of timestamp.proto: 0001-01-01 .. 9999-12-31.
constexpr int64_t kFirstSecond = -62'135'596'800;
constexpr int64_t kLastSecond = 253'402'300'799;

// Returns the duration as users write it: "400d", "1h30m".
std::string SpanText(absl::Duration span) {
  constexpr absl::Duration kDay = absl::Hours(24);
  if (absl::AbsDuration(span) < kDay || span % kDay != absl::ZeroDuration()) {
    return absl::FormatDuration(span);
  }
  return absl::StrCat(span / kDay, "d");
}

// Checks names and number of devices. Whether the pool has them is checked in
// control.
absl::Status CheckReservedDevices(const v1::CreateReservationRequest& request) {
  if (request.device_count() > kMostDevices ||
      request.devices_size() > static_cast<int>(kMostDevices)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device_count is ", request.device_count(), " and devices has ",
        request.devices_size(), " names; at most ", kMostDevices,
        " devices can be reserved at once"));
  }
  absl::flat_hash_set<std::string> seen;
  for (const std::string& device : request.devices()) {
    RETURN_IF_ERROR(CheckDevice(device));
    if (seen.insert(device).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("devices names ", Quoted(device), " twice; name it once"));
  }
  const std::string& kind = request.device_kind();
  if (kind.empty() || kind == "cpu" || kind == "cuda") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "device_kind is ", Quoted(kind), "; it must be cpu, cuda or empty"));
}

// Checks the range of the times. Whether the start has passed is checked in
// control, by its clock.
absl::Status CheckWindow(const v1::CreateReservationRequest& request) {
  const auto& start = request.start_time();
  if (start.nanos() < 0 || start.nanos() >= kNanosPerSecond ||
      start.seconds() < kFirstSecond || start.seconds() > kLastSecond) {
    return absl::InvalidArgumentError(
        "start_time is not a time from the years 1 to 9999, as in "
        "\"2026-01-31T18:00:00Z\"");
  }
  const auto& given = request.duration();
  const bool is_sane =
      given.nanos() >= 0 && given.nanos() < kNanosPerSecond &&
      given.seconds() >= 1 &&
      absl::Seconds(given.seconds()) + absl::Nanoseconds(given.nanos()) <=
          kLongestReservation;
  if (is_sane) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "duration is ",
      SpanText(absl::Seconds(given.seconds()) +
               absl::Nanoseconds(given.nanos())),
      "; it must be at least 1s and at most ", SpanText(kLongestReservation)));
}

}  // namespace

absl::Status CheckReservation(const v1::CreateReservationRequest& request) {
  RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  if (!request.name().empty()) {
    RETURN_IF_ERROR(CheckName("name", request.name()));
  }
  RETURN_IF_ERROR(CheckTenant(request.tenant()));
  RETURN_IF_ERROR(CheckReservedDevices(request));
  return CheckWindow(request);
}

absl::Status CheckCancelReservation(
    const v1::CancelReservationRequest& request) {
  if (request.id() > 0) return CheckId("id", request.id());
  return CheckName("name", request.name());
}

}  // namespace gpupool::server
