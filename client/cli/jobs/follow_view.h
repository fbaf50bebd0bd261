// The output while a job is followed: one live line on a terminal, else a plain
// line now and then.
//
// Thread-safety: one thread. Borrows the stream. The caller gives the time.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/output/console.h"
#include "client/cli/output/job_curves.h"
#include "client/cli/output/progress_line.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

class FollowView {
 public:
  // With `curves`, which must outlive the view, a terminal shows them above the
  // live line.
  FollowView(const Stream& stream, const v1::Job& job,
             const JobCurves* curves = nullptr);

  // Takes the job's present state, such as its memory and why it waits.
  void OnJob(const v1::Job& job);
  void OnEvent(const v1::JobEvent& event);
  // Draws the live line, or prints a plain line when one is due. Must be called
  // a few times a second.
  void Draw(absl::Time now);
  // Prints a line above the live line.
  void Note(absl::string_view text, Style style = Style::kPlain);
  // Removes the live line and the curves.
  void Clear();
  // Prints the curves below everything else, on any stream.
  void PrintCurves();

 private:
  void OnStateChange(const v1::StateChange& change);
  void DrawLive();

  Stream stream_;
  const JobCurves* const curves_;
  ProgressView view_;
  const absl::Time submitted_;
  bool drawn_ = false;    // whether the live line is on the screen
  int drawn_curves_ = 0;  // lines of curves above it
  bool changed_ = false;  // whether there is news for a plain line
  absl::Time next_plain_ = absl::InfinitePast();
};

// Returns the result of a job: state and time, held-out figures, memory, error
// and hint. Each line ends with a line end.
std::string JobSummary(const Stream& stream, const v1::Job& job,
                       absl::Time now);

}  // namespace gpupool::client
