#include "client/cli/jobs/log_lines.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/output/evaluation_view.h"
#include "client/cli/output/job_view.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

std::string StateChangeText(const v1::StateChange& change) {
  std::string text = StateText(change.to());
  if (!change.reason().empty()) absl::StrAppend(&text, ": ", change.reason());
  // The reason often contains the error already.
  if (change.has_error() &&
      !absl::StrContains(change.reason(), change.error().message())) {
    absl::StrAppend(&text, ": ", change.error().message());
  }
  return text;
}

std::string StepText(const v1::Progress& progress) {
  std::string text =
      absl::StrCat(progress.step(), " of ", progress.total_steps(), ": loss ",
                   FormatLoss(progress.loss()), ", ",
                   FormatCount(progress.samples_per_second()), " samples/s");
  if (progress.has_learning_rate()) {
    absl::StrAppendFormat(&text, ", learning rate %.4g",
                          progress.learning_rate());
  }
  return text;
}

// Returns the kind of an event and its text.
std::pair<std::string, std::string> Parts(const v1::JobEvent& event) {
  switch (event.event_case()) {
    case v1::JobEvent::kLog:
      return {v1::LogLine::Severity_Name(event.log().severity()),
              event.log().text()};
    case v1::JobEvent::kStateChange:
      return {"STATE", StateChangeText(event.state_change())};
    case v1::JobEvent::kProgress:
      return {"STEP", StepText(event.progress())};
    case v1::JobEvent::kEvaluation:
      return {"HELDOUT", absl::StrCat("step ", event.evaluation().step(), ": ",
                                      EvaluationText(event.evaluation()))};
    case v1::JobEvent::kCheckpoint:
      return {"SAVED", absl::StrCat("step ", event.checkpoint().step(), ", ",
                                    FormatBytes(event.checkpoint().bytes()))};
    case v1::JobEvent::kCaughtUp:
    case v1::JobEvent::EVENT_NOT_SET:
      break;
  }
  return {};
}

}  // namespace

std::vector<v1::JobEvent> LogEvents::Take(const v1::JobEvent& event) {
  // A newer server may send events that this client does not know.
  if (event.has_caught_up() ||
      event.event_case() == v1::JobEvent::EVENT_NOT_SET) {
    return {};
  }
  if (!event.has_progress() || all_progress_) {
    std::vector<v1::JobEvent> shown = End();
    if (event.has_state_change()) next_ = absl::InfinitePast();
    shown.push_back(event);
    return shown;
  }
  const absl::Time time = ToTime(event.time());
  if (time < next_) {
    held_back_ = event;
    return {};
  }
  held_back_.reset();
  next_ = time + kProgressInterval;
  return {event};
}

std::vector<v1::JobEvent> LogEvents::End() {
  std::optional<v1::JobEvent> last = std::exchange(held_back_, std::nullopt);
  if (!last.has_value()) return {};
  return {*std::move(last)};
}

std::string LogText(const v1::JobEvent& event) {
  const auto [kind, text] = Parts(event);
  return absl::StrFormat(
      "%s %-7s %s",
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", ToTime(event.time()),
                       absl::UTCTimeZone()),
      kind, text);
}

}  // namespace gpupool::client
