#include "client/cli/output/progress_line.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/output/job_view.h"
#include "client/cli/output/table.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

constexpr int kWidestBar = 30;
constexpr int kNarrowestBar = 10;

bool Waits(v1::JobState state) {
  return state == v1::QUEUED || state == v1::STARTING ||
         state == v1::BACKING_OFF;
}

double Share(const v1::Progress& progress) {
  if (progress.total_steps() == 0) return 0;
  return std::min(1.0, static_cast<double>(progress.step()) /
                           static_cast<double>(progress.total_steps()));
}

std::string WaitingText(const ProgressView& view) {
  std::string text =
      absl::StrCat(StateText(view.state), " ", FormatSpan(view.waited));
  if (!view.waiting_reason.empty()) {
    absl::StrAppend(&text, ": ", view.waiting_reason);
  }
  return text;
}

// Returns the text for a job of whose steps nothing is known yet.
std::string BeforeFirstStep(const ProgressView& view) {
  return absl::StrCat(StateText(view.state), ", before its first step");
}

std::string TimeLeft(const v1::Progress& progress) {
  if (!std::isfinite(progress.seconds_left())) return "ETA -";
  return absl::StrCat("ETA ",
                      FormatSpan(absl::Seconds(progress.seconds_left())));
}

std::string Rate(const v1::Progress& progress) {
  return absl::StrCat(FormatCount(progress.samples_per_second()), " samples/s");
}

std::string StepText(const v1::Progress& progress) {
  return absl::StrCat(progress.step(), "/", progress.total_steps());
}

// Returns the number of skipped steps, for jobs that scale their loss.
std::string SkippedText(const v1::Progress& progress) {
  return absl::StrFormat("%u skipped (loss scale %g)", progress.skipped_steps(),
                         progress.loss_scale());
}

std::string Join(const std::vector<std::string>& parts) {
  return absl::StrJoin(parts, "  ");
}

}  // namespace

std::string Bar(double share, int width) {
  const int inner = std::max(width - 2, 1);
  const int done = static_cast<int>(std::floor(share * inner));
  std::string bar(static_cast<size_t>(std::clamp(done, 0, inner)), '=');
  if (done > 0 && done < inner) bar.back() = '>';
  bar.resize(static_cast<size_t>(inner), ' ');
  return absl::StrCat("[", bar, "]");
}

std::string TransferText(const std::string& what, uint64_t done,
                         uint64_t total) {
  const double share =
      total == 0 ? 0 : static_cast<double>(done) / static_cast<double>(total);
  return absl::StrCat(what, "  ", Bar(share, 24), "  ", FormatBytes(done),
                      " of ", FormatBytes(total));
}

std::string ProgressLine(const ProgressView& view, int width) {
  const size_t limit = static_cast<size_t>(std::max(width, 20));
  if (Waits(view.state)) {
    return Fit(absl::StrCat(view.name, "  ", WaitingText(view)), limit);
  }
  const v1::Progress& progress = view.progress;
  if (progress.step() == 0) {
    return Fit(absl::StrCat(view.name, "  ", BeforeFirstStep(view)), limit);
  }
  const double share = Share(progress);
  std::vector<std::string> before = {view.name};
  std::vector<std::string> after = {
      absl::StrFormat("%3.0f%%", std::floor(share * 100)), StepText(progress),
      absl::StrCat("loss ", FormatLoss(progress.loss())), TimeLeft(progress)};
  // Parts at the end of the line, the least important last.
  std::vector<std::string> extras = {Rate(progress)};
  if (view.memory_bytes > 0) {
    extras.push_back(absl::StrCat("mem ", FormatBytes(view.memory_bytes)));
  }
  if (progress.skipped_steps() > 0) extras.push_back(SkippedText(progress));
  while (true) {
    std::vector<std::string> tail = after;
    tail.insert(tail.end(), extras.begin(), extras.end());
    const std::string head_text = Join(before);
    const std::string tail_text = Join(tail);
    const int used =
        static_cast<int>(DisplayWidth(head_text) + DisplayWidth(tail_text)) + 4;
    const int bar = std::min(kWidestBar, width - used);
    if (bar >= kNarrowestBar) {
      return Join({head_text, Bar(share, bar), tail_text});
    }
    if (extras.empty()) return Fit(Join({head_text, tail_text}), limit);
    extras.pop_back();
  }
}

std::string PlainProgress(const ProgressView& view) {
  if (Waits(view.state)) return WaitingText(view);
  const v1::Progress& progress = view.progress;
  if (progress.step() == 0) return BeforeFirstStep(view);
  std::vector<std::string> parts = {
      absl::StrFormat("step %s (%.0f%%)", StepText(progress),
                      std::floor(Share(progress) * 100)),
      absl::StrCat("epoch ", progress.epoch()),
      absl::StrCat("loss ", FormatLoss(progress.loss())), Rate(progress),
      TimeLeft(progress)};
  if (view.memory_bytes > 0) {
    parts.push_back(absl::StrCat("memory ", FormatBytes(view.memory_bytes)));
  }
  if (progress.skipped_steps() > 0) parts.push_back(SkippedText(progress));
  return absl::StrJoin(parts, ", ");
}

}  // namespace gpupool::client
