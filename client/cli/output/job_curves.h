// The curves of a job by its step: its loss and learning rate, and what
// evaluations found.
// Bounded in size, for jobs of any length.
//
// Thread-safety: one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

struct CurvePoint {
  double step = 0;
  double value = 0;
};

// A curve with at most kMostPoints points, steps rising. Numbers that are not
// finite are left out.
class Curve {
 public:
  static constexpr size_t kMostPoints = 4096;

  // Adds a point. Points at the same step and after it are dropped first: an
  // attempt that resumed makes those steps again.
  void Add(double step, double value);

  const std::vector<CurvePoint>& points() const { return points_; }

 private:
  std::vector<CurvePoint> points_;
};

// Returns whether values from `low` to `high` are drawn on a logarithmic axis:
// positive ones that span a factor of 50 or more.
bool NeedsLogarithmicAxis(double low, double high);

// Curves with one unit, for one chart.
struct Chart {
  std::string title;
  const Curve* line = nullptr;  // of every step; may be null
  std::vector<std::pair<std::string, const Curve*>> marks;  // of evaluations
  std::string line_name = "training";
};

class JobCurves {
 public:
  void OnEvent(const v1::JobEvent& event);

  // Returns a chart of the loss, one of the metrics between 0 and 1, one for
  // each other metric, and one of the learning rate if it ever changed. Curves
  // without points are left out of the marks, and so are charts without curves.
  // The charts point into this object.
  std::vector<Chart> Charts() const;

 private:
  Curve loss_;
  Curve held_out_loss_;
  Curve learning_rate_;
  std::map<std::string, Curve> shares_;
  std::map<std::string, Curve> others_;
};

}  // namespace gpupool::client
