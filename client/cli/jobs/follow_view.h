// What a person sees while following a job: one live line on a terminal,
// a plain line now and then elsewhere.
//
// Thread-safety: one thread. Borrows the stream. Time comes from the caller.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/output/console.h"
#include "client/cli/output/progress_line.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

class FollowView {
 public:
  FollowView(const Stream& stream, const v1::Job& job);

  // A fresh look at the job: memory, queue reason.
  void OnJob(const v1::Job& job);
  void OnEvent(const v1::JobEvent& event);
  // Draws the live line, or prints a plain line when one is due. Call a few
  // times a second.
  void Draw(absl::Time now);
  // A line above the live one.
  void Note(absl::string_view text, Style style = Style::kPlain);
  // Takes the live line away.
  void Clear();

 private:
  void OnStateChange(const v1::StateChange& change);

  const Stream stream_;
  ProgressView view_;
  const absl::Time submitted_;
  bool drawn_ = false;    // the live line is on the screen
  bool changed_ = false;  // there is something new for a plain line
  absl::Time next_plain_ = absl::InfinitePast();
};

// What a job came to: state and time, held-out figures, memory, error and
// hint. Several lines, each with its end.
std::string JobSummary(const Stream& stream, const v1::Job& job,
                       absl::Time now);

}  // namespace gpupool::client
