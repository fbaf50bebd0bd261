#include "server/api/inference/trace_settings.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

using TraceValue = inference::TraceSettingRequest::SettingValue;

constexpr absl::string_view kTraceFile = "trace_file";
constexpr absl::string_view kTraceLevel = "trace_level";
constexpr absl::string_view kTraceRate = "trace_rate";
// Settings that cannot be changed, with their values.
constexpr std::pair<absl::string_view, absl::string_view> kFixed[] = {
    {"trace_mode", "opentelemetry"},
    {"trace_count", "-1"},
    {"log_frequency", "0"}};
constexpr uint32_t kDefaultRate = 1000;

// The changes that a request asks for.
struct TraceChange {
  std::optional<bool> on;
  std::optional<uint32_t> rate;
};

uint32_t RateOf(double share) {
  const double rate = share > 0 ? std::round(1 / share) : kDefaultRate;
  return static_cast<uint32_t>(
      std::clamp(rate, 1.0, static_cast<double>(UINT32_MAX)));
}

absl::Status ReadLevel(const std::string& value, TraceChange* change) {
  if (value == "TENSORS") {
    return absl::UnimplementedError(
        "trace_level TENSORS is not offered; traces have times, use "
        "TIMESTAMPS");
  }
  if (value != "OFF" && value != "TIMESTAMPS") {
    return absl::InvalidArgumentError(absl::StrCat(
        "trace_level is '", value, "'; it must be OFF or TIMESTAMPS"));
  }
  change->on = value == "TIMESTAMPS";
  return absl::OkStatus();
}

absl::Status ReadRate(const std::string& value, TraceChange* change) {
  uint32_t rate = 0;
  if (!absl::SimpleAtoi(value, &rate) || rate == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("trace_rate is '", value,
                     "'; it must be a whole number from 1 to ", UINT32_MAX));
  }
  change->rate = rate;
  return absl::OkStatus();
}

absl::Status ReadFixed(const std::string& name, const std::string& value) {
  const auto* const found =
      std::find_if(std::begin(kFixed), std::end(kFixed),
                   [&](const auto& fixed) { return fixed.first == name; });
  if (found == std::end(kFixed)) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no trace setting '", name,
                     "'; trace_level and trace_rate can be changed"));
  }
  if (value == found->second) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      name, " is ", found->second,
      " and cannot be changed; trace_level and trace_rate can be"));
}

absl::Status ReadTraceSetting(const std::string& name, const TraceValue& value,
                              TraceChange* change) {
  if (name == kTraceFile) {
    return absl::UnimplementedError(
        "trace file location can not be updated through network protocol; "
        "traces are sent to the collector of --trace-endpoint");
  }
  if (value.value_size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("trace setting '", name,
                                                   "' has ", value.value_size(),
                                                   " values; give one"));
  }
  if (name == kTraceLevel) return ReadLevel(value.value(0), change);
  if (name == kTraceRate) return ReadRate(value.value(0), change);
  return ReadFixed(name, value.value(0));
}

// Returns NotFound unless a version of the model is ready or will be. An empty
// name stands for the server.
absl::Status CheckTracedModel(const std::string& name, const Router& router) {
  if (name.empty()) return absl::OkStatus();
  const absl::Status found = router.Route(name, "").status();
  return absl::IsUnavailable(found) ? absl::OkStatus() : found;
}

// Returns the share of requests that is traced after the change.
double ShareAfter(const TraceChange& change, double present) {
  if (!change.on.value_or(present > 0 || change.rate.has_value())) return 0;
  if (change.rate.has_value()) return 1.0 / *change.rate;
  return present > 0 ? present : 1.0 / kDefaultRate;
}

void FillTraceSettings(double share,
                       inference::TraceSettingResponse* response) {
  const auto set = [response](absl::string_view name, std::string value) {
    (*response->mutable_settings())[std::string(name)].add_value(
        std::move(value));
  };
  set(kTraceLevel, share > 0 ? "TIMESTAMPS" : "OFF");
  set(kTraceRate, absl::StrCat(RateOf(share)));
  set(kTraceFile, "");
  for (const auto& [name, value] : kFixed) set(name, std::string(value));
}

}  // namespace

absl::Status AnswerTraceSetting(const inference::TraceSettingRequest& request,
                                const Router& router, Tracer* tracer,
                                inference::TraceSettingResponse* response) {
  if (tracer == nullptr) {
    return absl::UnimplementedError(
        "traces are off; start the server with --trace-endpoint. Stage times "
        "are also in ModelStatistics and in the metrics");
  }
  RETURN_IF_ERROR(CheckTracedModel(request.model_name(), router));
  if (!request.model_name().empty() && !request.settings().empty()) {
    return absl::UnimplementedError(
        "a model has no trace settings of its own; leave model_name empty to "
        "change those of the server");
  }
  TraceChange change;
  for (const auto& [name, value] : request.settings()) {
    RETURN_IF_ERROR(ReadTraceSetting(name, value, &change));
  }
  if (change.on.has_value() || change.rate.has_value()) {
    tracer->SetSampling(ShareAfter(change, tracer->sampling()));
  }
  FillTraceSettings(tracer->sampling(), response);
  return absl::OkStatus();
}

}  // namespace gpupool::server
