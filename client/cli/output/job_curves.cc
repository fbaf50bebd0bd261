#include "client/cli/output/job_curves.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/string_view.h"

namespace gpupool::client {
namespace {

// Returns whether a metric is a share between 0 and 1.
bool IsShare(absl::string_view metric) {
  static const std::set<absl::string_view> shares = {"auc", "f1", "iou",
                                                     "precision", "recall"};
  return shares.count(metric) > 0;
}

// Returns whether all points have one value, or there are none.
bool IsFlat(const Curve& curve) {
  return std::all_of(curve.points().begin(), curve.points().end(),
                     [&](const CurvePoint& point) {
                       return point.value == curve.points().front().value;
                     });
}

// Values that span this factor need a logarithmic axis.
constexpr double kLogarithmicFrom = 50;

}  // namespace

bool NeedsLogarithmicAxis(double low, double high) {
  return low > 0 && high >= kLogarithmicFrom * low;
}

void Curve::Add(double step, double value) {
  if (!std::isfinite(value)) return;
  while (!points_.empty() && points_.back().step >= step) points_.pop_back();
  if (points_.size() == kMostPoints) {
    // Two neighbours become their mean.
    for (size_t i = 0; i < kMostPoints / 2; ++i) {
      const CurvePoint& a = points_[2 * i];
      const CurvePoint& b = points_[2 * i + 1];
      points_[i] = {(a.step + b.step) / 2, (a.value + b.value) / 2};
    }
    points_.resize(kMostPoints / 2);
  }
  points_.push_back({step, value});
}

void JobCurves::OnEvent(const v1::JobEvent& event) {
  if (event.has_progress() && event.progress().step() > 0) {
    loss_.Add(static_cast<double>(event.progress().step()),
              event.progress().loss());
    if (event.progress().has_learning_rate()) {
      learning_rate_.Add(static_cast<double>(event.progress().step()),
                         event.progress().learning_rate());
    }
  }
  if (!event.has_evaluation()) return;
  const v1::Evaluation& evaluation = event.evaluation();
  const auto step = static_cast<double>(evaluation.step());
  held_out_loss_.Add(step, evaluation.loss());
  if (evaluation.has_accuracy()) {
    shares_["accuracy"].Add(step, evaluation.accuracy());
  }
  if (evaluation.has_top_k_accuracy()) {
    shares_["top-k accuracy"].Add(step, evaluation.top_k_accuracy());
  }
  for (const auto& [name, value] : evaluation.metrics()) {
    (IsShare(name) ? shares_ : others_)[name].Add(step, value);
  }
}

std::vector<Chart> JobCurves::Charts() const {
  std::vector<Chart> charts;
  if (!loss_.points().empty() || !held_out_loss_.points().empty()) {
    Chart chart{"loss", &loss_, {}};
    if (!held_out_loss_.points().empty()) {
      chart.marks.push_back({"held out", &held_out_loss_});
    }
    charts.push_back(std::move(chart));
  }
  // A metric that was never finite has a curve without points.
  Chart shares{"held out", nullptr, {}};
  for (const auto& [name, curve] : shares_) {
    if (!curve.points().empty()) shares.marks.push_back({name, &curve});
  }
  if (!shares.marks.empty()) charts.push_back(std::move(shares));
  for (const auto& [name, curve] : others_) {
    if (curve.points().empty()) continue;
    charts.push_back({"held out", nullptr, {{name, &curve}}});
  }
  if (!IsFlat(learning_rate_)) {
    charts.push_back({"learning rate", &learning_rate_, {}, "rate"});
  }
  return charts;
}

}  // namespace gpupool::client
