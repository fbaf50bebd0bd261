#include "client/cli/jobs/follow_view.h"

#include <algorithm>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "client/cli/jobs/job_plot.h"
#include "client/cli/output/evaluation_view.h"
#include "client/cli/output/job_view.h"
#include "client/text/units.h"
#include "client/watch.h"

namespace gpupool::client {
namespace {

constexpr absl::Duration kPlainInterval = absl::Seconds(5);
constexpr absl::string_view kEraseLine = "\r\x1b[K";
constexpr absl::string_view kEraseLineAbove = "\x1b[1A\x1b[K";
// Lines of a terminal that curves leave to other output.
constexpr int kNotesRoom = 4;

}  // namespace

FollowView::FollowView(const Stream& stream, const v1::Job& job,
                       const JobCurves* curves)
    : stream_(stream), curves_(curves), submitted_(ToTime(job.create_time())) {
  view_.name = job.spec().name();
  OnJob(job);
}

void FollowView::OnJob(const v1::Job& job) {
  const uint64_t measured = job.memory().measured_peak_bytes();
  view_.memory_bytes = measured > 0 ? measured : job.plan().training().peak();
  if (view_.state == job.state() &&
      view_.waiting_reason != job.waiting_reason()) {
    view_.waiting_reason = job.waiting_reason();
    changed_ = true;
  }
}

void FollowView::OnEvent(const v1::JobEvent& event) {
  switch (event.event_case()) {
    case v1::JobEvent::kStateChange:
      OnStateChange(event.state_change());
      break;
    case v1::JobEvent::kProgress:
      view_.progress = event.progress();
      changed_ = true;
      break;
    case v1::JobEvent::kLog:
      Note(event.log().text(), event.log().severity() == v1::LogLine::ERROR
                                   ? Style::kRed
                                   : Style::kDim);
      break;
    case v1::JobEvent::kEvaluation:
      Note(absl::StrCat("held out at step ", event.evaluation().step(), ": ",
                        EvaluationText(event.evaluation())));
      break;
    case v1::JobEvent::kCheckpoint:
    case v1::JobEvent::kCaughtUp:
    case v1::JobEvent::EVENT_NOT_SET:
      break;
  }
}

void FollowView::OnStateChange(const v1::StateChange& change) {
  view_.state = change.to();
  view_.waiting_reason =
      change.to() == v1::QUEUED || change.to() == v1::BACKING_OFF
          ? change.reason()
          : "";
  const bool trouble =
      change.to() == v1::BACKING_OFF || change.to() == v1::CANCELLING;
  if (trouble || !stream_.is_terminal) {
    std::string text = StateText(change.to());
    if (!change.reason().empty()) {
      absl::StrAppend(&text, ": ", change.reason());
    }
    Note(text, StateStyle(change.to()));
  }
  changed_ = change.to() == v1::RUNNING ? false : changed_;
}

void FollowView::Draw(absl::Time now) {
  if (IsFinal(view_.state)) return;
  view_.waited = std::max(now - submitted_, absl::ZeroDuration());
  if (stream_.is_terminal) return DrawLive();
  if (!changed_ || now < next_plain_) return;
  const std::string line = PlainProgress(view_);
  *stream_.stream << line << std::endl;
  changed_ = false;
  next_plain_ = now + kPlainInterval;
}

void FollowView::DrawLive() {
  UpdateSize(stream_);
  if (curves_ != nullptr) {
    const std::vector<std::string> lines =
        PlotLines(*curves_, stream_, stream_.height - kNotesRoom);
    Clear();
    for (const std::string& line : lines) *stream_.stream << line << "\n";
    drawn_curves_ = static_cast<int>(lines.size());
  }
  *stream_.stream << kEraseLine << ProgressLine(view_, stream_.width - 1)
                  << std::flush;
  drawn_ = true;
}

void FollowView::Note(absl::string_view text, Style style) {
  Clear();
  *stream_.stream << Paint(stream_, style, text) << std::endl;
}

void FollowView::Clear() {
  if (!drawn_) return;
  *stream_.stream << kEraseLine;
  for (; drawn_curves_ > 0; --drawn_curves_) {
    *stream_.stream << kEraseLineAbove;
  }
  *stream_.stream << std::flush;
  drawn_ = false;
}

void FollowView::PrintCurves() {
  Clear();
  if (curves_ == nullptr) return;
  UpdateSize(stream_);
  for (const std::string& line :
       PlotLines(*curves_, stream_, stream_.height - kNotesRoom)) {
    *stream_.stream << line << "\n";
  }
  *stream_.stream << std::flush;
}

std::string JobSummary(const Stream& stream, const v1::Job& job,
                       absl::Time now) {
  std::string text =
      Paint(stream, StateStyle(job.state()),
            absl::StrCat("job ", job.id(), " (", job.spec().name(), ") ",
                         StateText(job.state())));
  const std::string run_time = RunTime(job, now);
  if (!run_time.empty()) absl::StrAppend(&text, " after ", run_time);
  if (!job.device().empty()) absl::StrAppend(&text, " on ", DevicesText(job));
  absl::StrAppend(&text, "\n");
  if (job.progress().total_steps() > 0) {
    absl::StrAppend(&text, "  step ", job.progress().step(), " of ",
                    job.progress().total_steps());
    if (job.progress().step() > 0) {
      absl::StrAppend(&text, ", loss ", FormatLoss(job.progress().loss()));
    }
    absl::StrAppend(&text, "\n");
  }
  if (job.has_evaluation()) {
    absl::StrAppend(&text, "  held out: ", EvaluationText(job.evaluation()),
                    "\n", ConfusionText(job.evaluation().confusion(), "  "));
  }
  if (job.memory().measured_peak_bytes() > 0) {
    absl::StrAppend(
        &text, "  memory: ", FormatBytes(job.memory().measured_peak_bytes()),
        " at its peak, ", FormatBytes(job.memory().planned_peak_bytes()),
        " planned\n");
  }
  if (job.has_error()) {
    absl::StrAppend(&text, "  why: ", job.error().message(), "\n");
    if (!job.error().hint().empty()) {
      absl::StrAppend(&text, "  hint: ", job.error().hint(), "\n");
    }
  }
  return text;
}

}  // namespace gpupool::client
