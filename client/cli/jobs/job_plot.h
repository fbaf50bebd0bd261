// The curves of jobs for people: as text that fits a stream, and as an SVG
// picture. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/cli/output/console.h"
#include "client/cli/output/job_curves.h"

namespace gpupool::client {

// Returns the charts as lines without line ends: with braille on a terminal, so
// that `room` lines are enough for all; in ASCII elsewhere, where `room` does
// not matter. Charts for which there is no room are left out, the last first.
std::vector<std::string> PlotLines(const JobCurves& curves,
                                   const Stream& stream, int room);

// Returns a picture of all charts. It names the job.
std::string PlotPicture(const JobCurves& curves, const std::string& job);

// Returns a picture of the losses of several jobs in one chart, with their
// names in its legend. Curves without points are left out. `steps` is the text
// under the steps.
std::string LossPicture(
    const std::vector<std::pair<std::string, const Curve*>>& losses,
    const std::string& steps);

}  // namespace gpupool::client
